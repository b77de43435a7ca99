package published

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Process is what a process reports about the configuration that it has in force.
type Process struct {
	Name string `json:"name"`
	Host string `json:"host"`
	PID  int    `json:"pid,omitempty"`
	// Program is the version of the program.
	Program string `json:"program,omitempty"`
	// Version and Hash are those in force; Version is 0 for a file.
	Version int64     `json:"version"`
	Hash    string    `json:"hash,omitempty"`
	Since   time.Time `json:"since"` // by the clock of the process
	// Refused is a version that the process cannot use, and Error says why.
	Refused int64  `json:"refused,omitempty"`
	Error   string `json:"error,omitempty"`
	// Compares: the process goes by a file, and does not follow. Then Error says how that differs, if it does.
	Compares bool `json:"compares,omitempty"`
	// Seen is how long ago the process reported.
	Seen time.Duration `json:"-"`
}

// Has reports whether the process has a version in force.
func (p *Process) Has(version int64, hash string) bool { return p.Version == version && p.Hash == hash }

// VersionText is the version in force, for people.
func (p *Process) VersionText() string {
	switch {
	case p.Compares && p.Version == 0:
		return "file"
	case p.Version == 0:
		return "none"
	}
	return strconv.FormatInt(p.Version, 10)
}

// reportEvery is the time between two reports of a process, and reportKept how long a report is kept.
const (
	reportEvery = 10 * time.Second
	reportKept  = 30 * time.Second
)

// text returns the report, within [admin.MaxConfigReport], with as much of its texts as there is room for.
func (p Process) text() string {
	for most := 300; ; most /= 2 { // a control character takes six bytes
		p.Name, p.Host, p.Program, p.Error = cut(p.Name, most/3), cut(p.Host, most/3), cut(p.Program, most/3),
			cut(p.Error, most)
		if text := jsonText(p); len(text) <= admin.MaxConfigReport-idSize {
			return text
		}
	}
}

// cut returns the first bytes of a text, as valid UTF-8.
func cut(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Processes returns what processes have reported, by name, host and number.
func Processes(ctx context.Context, table *admin.Tables) (processes []Process, err error) {
	names := make([]string, places)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	reports, _, err := table.Get(ctx, admin.ReportTable, names...)
	for _, r := range reports {
		p := Process{Seen: max(0, reportKept-r.Left)}
		if len(r.Value) >= idSize && json.Unmarshal([]byte(r.Value[idSize:]), &p) == nil && p.Version >= 0 {
			processes = append(processes, p)
		}
	}
	slices.SortFunc(processes, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID))
	})
	return processes, err
}

// There are places for reports. A report begins with the random ID of its process.
const (
	places = 500
	idSize = 16
)

// reports reports what is in force, if that has changed or if it is time.
func (f *Follower) reports(ctx context.Context) {
	if f.Compares && f.InForce == nil && f.Refused() == 0 {
		return
	}
	now, p := f.Now(), f.Process
	if v := f.InForce; v != nil {
		p.Version, p.Hash, p.Since = v.Number, v.Hash, f.Since
	}
	p.Compares = f.Compares
	if p.Refused = f.Refused(); p.Refused > 0 {
		p.Error = f.Err.Error()
	}
	if refused, is := errors.AsType[*RefusedError](f.Err); is && p.Compares {
		p.Refused, p.Error = 0, refused.Cause.Error()
	}
	text := p.text()
	if late := now.Sub(f.report.at); text == f.report.text && late >= 0 && late < reportEvery {
		return
	}
	ctx, cancel := store.BudgetContext(ctx, f.Timeout)
	defer cancel()
	if f.place < 0 {
		f.place = rand.IntN(places)
	}
	free, err := f.write(ctx, text, reportKept)
	switch {
	case err == nil && !free || errors.Is(err, store.ErrForeign): // the next look tries another place
		f.place = -1
		return
	case err != nil && !store.IsAway(err) && !f.mute && f.OnWarning != nil:
		f.mute = true
		f.OnWarning(fmt.Errorf("this process cannot report which version it has, so config status does not show it: %w",
			err))
	}
	f.report.at, f.report.text = now, text
}

// write writes a report, unless the place has that of another process.
func (f *Follower) write(ctx context.Context, text string, left time.Duration) (free bool, err error) {
	place := strconv.Itoa(f.place)
	held, err := f.Table.Value(ctx, admin.ReportTable, place)
	if err != nil || held != "" && !strings.HasPrefix(held, f.id) {
		return false, err
	}
	return f.Table.Change(ctx, &admin.Change{Table: admin.ReportTable, What: "report", Guard: place, Was: held,
		Set: []admin.TableRecord{{Name: place, Value: f.id + text, Left: left}}})
}

// Close withdraws the report, so that nobody waits for this process.
func (f *Follower) Close(ctx context.Context) {
	if f.place < 0 {
		return
	}
	ctx, cancel := store.BudgetContext(ctx, f.Timeout)
	defer cancel()
	f.write(ctx, f.report.text, time.Millisecond)
}
