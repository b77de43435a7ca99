package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// examineTables examines the store's denials and overrides. An error means that the store stopped answering; a
// missing right is a finding.
func examineTables(ctx context.Context, backend store.Store) (found []Finding, err error) {
	if table, err := published.TableOf(backend); err == nil {
		v, _, err := published.InForce(ctx, table, published.Cache{})
		var processes []published.Process
		if err == nil {
			processes, err = published.Processes(ctx, table)
		}
		switch {
		case store.IsAway(err):
			return found, err
		case !errors.Is(err, published.ErrNothing):
			found = append(found, judgePublished(v, processes, err))
		}
	}
	table, has := admin.TablesOf(backend)
	if !has {
		return found, nil
	}
	denials, err := table.Denials(ctx, admin.DenialMinutes)
	if store.IsAway(err) {
		return found, err
	}
	overrides, _, overridesErr := table.Overrides(ctx)
	found = append(found, judgeDenials(&denials, err))
	if store.IsAway(overridesErr) {
		return found, overridesErr
	}
	return append(found, judgeOverrides(overrides, overridesErr)), nil
}

// unread returns the finding that something beside the limits cannot be read. The finding of the rights says which
// right is missing.
func unread(check string, err error) Finding {
	f := Finding{Check: check, Status: Warn, Summary: "cannot be read: " + oneLine(err), Advice: "look at the rights above"}
	if errors.Is(err, store.ErrForeign) {
		f.Advice = "delete the key that limitctl did not write"
	}
	return f
}

// judgePublished judges whether all processes that report have the published version in force. err says why it could not
// be read.
func judgePublished(v *published.Version, processes []published.Process, err error) Finding {
	if err != nil {
		return unread("published", err)
	}
	var others []string
	for i := range processes {
		if p := &processes[i]; !p.Has(v.Number, v.Hash) {
			others = append(others, fmt.Sprintf("%s on %s (%s)", p.Name, p.Host, p.VersionText()))
		}
	}
	f := Finding{Check: "published", Status: OK, Data: map[string]any{"version": v.Number, "processes": len(processes),
		"lagging": len(others)}}
	f.Summary = fmt.Sprintf("version %d; %s", v.Number, output.Counted(len(processes), "process has it", "processes have it"))
	if len(others) > 0 {
		f.Status = Warn
		f.Summary = fmt.Sprintf("version %d, and not in force in %s", v.Number, strings.Join(others, ", "))
		f.Advice = "limitctl config status says why"
	}
	return f
}

// judgeDenials judges the denials of the last hour. err says why they could not be read.
func judgeDenials(d *admin.Denials, err error) Finding {
	if err != nil {
		return unread("denials", err)
	}
	total := d.Total()
	f := Finding{Check: "denials", Status: OK, Data: map[string]any{"keys": len(d.Rows), "denied": total, "others": d.Others,
		"lost": d.Lost}}
	f.Summary = fmt.Sprintf("%s in the last hour, of %s; limitctl denials shows them", output.Plural(total, "denial"),
		output.Plural(len(d.Rows), "key"))
	switch {
	case total == 0:
		f.Status, f.Summary = Unknown, "none was counted in the last hour"
	case d.Lost:
		f.Status = Warn
		f.Summary += "; some are not counted"
		f.Advice = "it is not known what became of a write: look for time-outs between services and the store"
	}
	return f
}

// judgeOverrides judges the overrides in force. err says why they could not be read.
func judgeOverrides(overrides []store.Override, err error) Finding {
	if err != nil {
		return unread("overrides", err)
	}
	f := Finding{Check: "overrides", Status: OK, Data: map[string]any{"count": len(overrides)}}
	if len(overrides) == 0 {
		f.Summary = "none"
		return f
	}
	first := overrides[0]
	var sweeping []string
	for i := range overrides {
		o := &overrides[i]
		if o.ExpiresAt.Before(first.ExpiresAt) {
			first = *o
		}
		if (o.Effect == store.OverrideBlock || o.Effect == store.OverrideExempt) && isEverybody(o) {
			sweeping = append(sweeping, o.ID)
		}
	}
	f.Summary = fmt.Sprintf("%s in force; %s ends first, in %s (limitctl override list)", output.Plural(len(overrides), "override"),
		output.Printable(first.ID), output.Duration(first.Left.Truncate(time.Second)))
	if len(sweeping) > 0 {
		f.Status = Warn
		f.Summary = fmt.Sprintf("an override blocks or exempts everybody: %s; %s in force",
			output.Printable(strings.Join(sweeping, ", ")), output.Plural(len(overrides), "override"))
		f.Advice = "see limitctl override list, and revoke it with limitctl override revoke ID unless it is meant"
		f.Data["of_everybody"] = sweeping
	}
	return f
}

// isEverybody reports whether an override is for all subjects and all their limits.
func isEverybody(o *store.Override) bool {
	every := func(p store.Pattern) bool { text := p.String(); return text == "" || text == "*" }
	return every(o.Subjects) && every(o.Names) && len(o.Attributes) == 0
}

// Embedded examines a store without a server. It returns nil for any other.
func Embedded(ctx context.Context, backend store.Store) (*Report, error) {
	report, err := embedded(ctx, backend)
	if report == nil || err != nil || !report.Reached {
		return report, err
	}
	found, err := examineTables(ctx, backend)
	report.Add(found...)
	return report, err
}

func embedded(ctx context.Context, backend store.Store) (*Report, error) {
	switch backend := backend.(type) {
	case *memorystore.Store:
		return &Report{Reached: true, Findings: []Finding{{Check: "reachable", Status: OK,
			Summary: "in the memory of this process: it starts empty and ends with the process"}}}, nil
	case *filestore.Store:
		health, err := backend.Health(ctx)
		report := &Report{Reached: err == nil, Findings: judgeFile(health, err)}
		return report, err
	}
	return nil, nil
}

const busyAdvice = "find out who holds the file, for example with fuser; wait for them to end, or longer (--timeout)"

func judgeFile(h filestore.Health, err error) []Finding {
	data := map[string]any{"path": h.Path, "exists": h.Exists, "bytes": h.Bytes}
	path := output.Printable(h.Path)
	reach := Finding{Check: "reachable", Status: OK, Data: data}
	switch {
	case err != nil:
		reach.Status, reach.Summary = Fail, oneLine(err)
		reach.Advice = "check the file's path and rights; a file that is damaged or not limitctl's can be moved away, which forgets the " +
			"usage in it"
		if errors.Is(err, store.ErrUnavailable) {
			reach.Advice = busyAdvice
		}
		return []Finding{reach}
	case !h.Exists:
		reach.Summary = path + " does not exist yet; the first take creates it"
		return []Finding{reach}
	}
	reach.Summary = fmt.Sprintf("%s, %s", path, output.Bytes(h.Bytes))
	file := Finding{Check: "file", Status: OK, Summary: "sound, writable, journal mode " + h.JournalMode,
		Data: map[string]any{"journal_mode": h.JournalMode, "damage": h.Damage, "writable": h.NotWritable == nil}}
	switch {
	case h.Damage != "":
		file.Status, file.Summary = Fail, "damaged: "+h.Damage
		file.Advice = "move the file away, which forgets the usage in it, or repair it with sqlite3 FILE .recover"
	case h.NotWritable != nil:
		file.Status, file.Summary = Fail, "cannot be written: "+oneLine(h.NotWritable)
		file.Advice = "give the user the right to write the file and its directory"
		if errors.Is(h.NotWritable, store.ErrUnavailable) {
			file.Advice = busyAdvice
		}
	case h.JournalMode != "wal":
		file.Status, file.Summary = Warn, "journal mode "+h.JournalMode+": readers and a writer wait for each other"
		file.Advice = "sqlite3 FILE 'PRAGMA journal_mode = wal' while nobody uses it; on a network file system it cannot be"
	}
	keys := Finding{Check: "keys", Status: OK, Summary: output.Plural(h.Keys, "limit"), Data: map[string]any{"limits": h.Keys}}
	return []Finding{reach, file, keys}
}
