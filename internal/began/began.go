// Package began finds which denials began lately, what was changed just before, and the commands that may help.
package began

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Window is how far back denials begin lately, and how long before them a change is just before.
const Window = 10 * time.Minute

// Began is what began within [Window].
type Began struct {
	Denied int64    `json:"denied"` // by all Limits
	Limits []*Limit `json:"limits"` // those that denied most first
}

// Limit is a limit that began to deny keys.
type Limit struct {
	Name   string    `json:"name"`
	Denied int64     `json:"denied"` // of the keys that it began to deny
	Keys   int       `json:"keys"`   // how many they are
	Since  time.Time `json:"since"`  // of the first of them
	// Changes are the runs that changed something of a key just before its denials began, the latest first.
	Changes []*auditlog.Entry `json:"changes"`
	// Command has the words after "limitctl" of a command that may help; nil for none.
	Command []string `json:"-"`
	// Line is Command as it is typed for the store in use, if who shows it has set it.
	Line string `json:"command,omitempty"`

	rows []*admin.Denied
}

// Find returns what began, nil if nothing did. denials are of the last [Window], and overrides those in force; nil if
// they are not known. An error is that of reading changes: then there are no commands.
func Find(ctx context.Context, table *admin.Tables, denials *admin.Denials,
	overrides *store.OverrideList) (*Began, error) {
	b := new(Began)
	for i := range denials.Rows {
		if row := &denials.Rows[i]; row.Since.Until(denials.Now) <= Window {
			b.add(row)
		}
	}
	if len(b.Limits) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(b.Limits, func(x, y *Limit) int { return cmp.Compare(y.Denied, x.Denied) })
	journal := &auditlog.Journal{Store: table, Timeout: Window} // that of ctx is shorter
	history, err := journal.Read(ctx, auditlog.Query{})
	if err != nil || history.StoreError != nil {
		return b, cmp.Or(err, history.StoreError)
	}
	state, err := published.Read(ctx, table)
	if err != nil {
		return b, err
	}
	from := denials.Now.Time().Add(-2 * Window)
	versions, err := publications(ctx, table, state, from)
	if err != nil {
		return b, err
	}
	lately := slices.DeleteFunc(slices.Clone(history.Runs),
		func(e *auditlog.Entry) bool { return e.Time.Before(from) || !e.MayHaveChanged() })
	for _, l := range b.Limits {
		rows, byVersion := []*admin.Denied{}, int64(0) // what a command may help, and denials by the version in force
		for _, row := range l.rows {
			version := before(versions, row)
			for _, e := range lately {
				if began(e, history.Runs, row, version) && !slices.Contains(l.Changes, e) {
					l.Changes = append(l.Changes, e)
				}
			}
			if overrides == nil || denials.Lost || row.LastAt.Until(denials.Now) > admin.DenialPause {
				continue
			}
			if o := overrides.For(row.Key); o != nil && o.Effect == store.OverrideBlock {
				continue
			}
			if rows = append(rows, row); version != nil && version.Version == state.Head.Version && version.Of == 0 {
				byVersion += row.Count
			}
		}
		slices.SortStableFunc(l.Changes, func(x, y *auditlog.Entry) int { return y.Time.Compare(x.Time) })
		half := (l.Denied + denials.Others) / 2
		if l.Denied < b.Denied/10 { // a few denials are no reason to block somebody
			rows = nil
		}
		// One address is a scraper. Many denied right after a version are that version's, also if they share a network.
		if l.Command = block(rows, half, 32, 128); l.Command == nil && byVersion > half && state.Kept(state.Before()) {
			l.Command = []string{"config", "rollback", strconv.FormatInt(state.Before(), 10), "--reason",
				fmt.Sprintf("denials began after version %d", state.Head.Version)}
		}
		if l.Command == nil {
			l.Command = block(rows, half, 24, 64)
		}
	}
	return b, nil
}

// add adds a key to its limit.
func (b *Began) add(row *admin.Denied) {
	at := slices.IndexFunc(b.Limits, func(l *Limit) bool { return l.Name == row.Key.Name })
	if at < 0 {
		at = len(b.Limits)
		b.Limits = append(b.Limits, &Limit{Name: row.Key.Name, Since: row.Since.Time()})
	}
	l := b.Limits[at]
	b.Denied, l.Denied, l.Keys, l.rows = b.Denied+row.Count, l.Denied+row.Count, l.Keys+1, append(l.rows, row)
	if since := row.Since.Time(); since.Before(l.Since) {
		l.Since = since
	}
}

// block returns the block of the network, of so many bits, that was denied more than half; nil for none.
func block(rows []*admin.Denied, half int64, ipv4, ipv6 int) []string {
	denied := map[string]int64{}
	for _, row := range rows {
		pattern := networkOf(row.Key.Subject, ipv4, ipv6)
		if denied[pattern] += row.Count; denied[pattern] > half && pattern != "" {
			return []string{"block", pattern, "--for", "1h", "--reason", "most of the denials that began"}
		}
	}
	return nil
}

// networkOf returns the pattern of subjects that differ from subject in an address of one network; "" if there is none.
func networkOf(subject string, ipv4, ipv6 int) string {
	network, is := store.NetworkOf(subject, ipv4, ipv6)
	if !is || strings.HasPrefix(subject, "-") || strings.ContainsAny(subject, `*?[\=`) {
		return ""
	}
	for at := range subject {
		if at == 0 || subject[at-1] != ':' {
			continue
		}
		text := subject[:at] + network.String()
		if pattern, err := store.ParsePattern(text); err == nil && pattern.Match(subject) {
			return text
		}
	}
	return ""
}

func justBefore(at time.Time, row *admin.Denied) bool {
	instant := store.InstantOf(at)
	return instant <= row.Since && instant.Until(row.Since) <= Window
}

// began reports whether a run was about a key just before its denials, or published the version that began them.
func began(e *auditlog.Entry, runs []*auditlog.Entry, row *admin.Denied, version *publication) bool {
	if strings.HasPrefix(e.Command, "config ") {
		return version != nil && strings.HasSuffix(e.Selection, fmt.Sprintf("(version %d)", version.Version))
	}
	isAbout := func(run *auditlog.Entry) bool {
		return (run == e || run.Undone != nil && run.Undone.Run == e.Run) && run.IsAbout(row.Key)
	}
	return justBefore(e.Time, row) && slices.ContainsFunc(runs, isAbout)
}

// publication is a version that was put in force, and the limits before it and with it.
type publication struct {
	published.Line
	old, limits allowance.ConfiguredLimits
}

// publications returns those since then whose limits are known. The first of a store has none before it.
func publications(ctx context.Context, table *admin.Tables, state *published.State, since time.Time) (
	all []publication, err error) {
	lines := slices.DeleteFunc(slices.Clone(state.Lines), func(l published.Line) bool { return !l.PutInForce() })
	for i := 1; i < len(lines); i++ {
		if lines[i].At.Before(since) {
			continue
		}
		p := publication{Line: lines[i]}
		for j, limits := range []*allowance.ConfiguredLimits{&p.old, &p.limits} {
			v, err := state.Fetch(ctx, table, lines[i-1+j].Version)
			if err != nil {
				return nil, err
			}
			if file, err := published.Parse("", v.Text); err == nil {
				*limits = allowance.NewConfiguredLimits(file.Policies)
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// before returns the version that began the denials of a key, nil for none: one just before that lets it take less. The
// latest that changed its limit since takes its place, but one that lets it take more began nothing.
func before(versions []publication, row *admin.Denied) (found *publication) {
	isRun := false
	for i := range versions {
		p := &versions[i]
		changed, less := p.old.Compare(p.limits, row.Key)
		if isRun = isRun || less && justBefore(p.At, row); !changed || !isRun || store.InstantOf(p.At) > row.LastAt {
			continue
		}
		if found = nil; less {
			found = p
		}
	}
	return found
}
