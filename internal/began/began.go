// Package began finds which denials began lately, what was changed just before, and the one command that may help.
package began

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Window is how far back denials begin lately, and how long before them a change is just before.
const Window = 10 * time.Minute

// Began is what began within [Window].
type Began struct {
	Denied int64   // by all Limits
	Limits []Limit // those that denied most first
	// Changes are the runs, publications among them, since [Window] before the first denial; the latest first.
	Changes []*auditlog.Entry
	// Command has the words after "limitctl" of a command that may help; nil for none.
	Command []string
}

// Limit is a limit that began to deny keys.
type Limit struct {
	Name   string    `json:"name"`
	Denied int64     `json:"denied"` // of these keys
	Keys   int       `json:"keys"`
	Since  time.Time `json:"since"` // of the first of them
}

// Find returns what began, nil if nothing did. denials are of the last [Window], and overrides those in force; nil if
// they are not known. An error is that of reading changes: then there is no command.
func Find(ctx context.Context, table *admin.Tables, denials *admin.Denials,
	overrides *store.OverrideList) (*Began, error) {
	b := new(Began)
	first, rows := denials.Now.Time(), []*admin.Denied{} // those that began and that a command may help
	for i := range denials.Rows {
		row := &denials.Rows[i]
		if row.Since.Until(denials.Now) > Window {
			continue
		}
		if b.add(row); row.Since.Time().Before(first) {
			first = row.Since.Time()
		}
		if overrides == nil || denials.Lost || row.LastAt.Until(denials.Now) > admin.DenialPause {
			continue
		}
		if o := overrides.For(row.Key); o == nil || o.Effect != store.OverrideBlock {
			rows = append(rows, row)
		}
	}
	if len(b.Limits) == 0 {
		return nil, nil
	}
	slices.SortStableFunc(b.Limits, func(x, y Limit) int { return cmp.Compare(y.Denied, x.Denied) })
	journal := &auditlog.Journal{Store: table, Timeout: Window} // that of ctx is shorter
	history, err := journal.Read(ctx, auditlog.Query{Keep: func(e *auditlog.Entry) bool {
		return !e.Time.Before(first.Add(-Window)) && e.Outcome != auditlog.Failed
	}})
	if err != nil || history.StoreError != nil {
		return b, cmp.Or(err, history.StoreError)
	}
	b.Changes = history.Runs
	slices.Reverse(b.Changes)
	state, err := published.Read(ctx, table)
	if err != nil {
		return b, err
	}
	half := (b.Denied + denials.Others) / 2
	// One address is a scraper. Many that are denied right after a version are that version's, also if they share a network.
	if b.Command = block(rows, half, 32, 128); b.Command == nil {
		b.Command = rollback(rows, half, state)
	}
	if b.Command == nil {
		b.Command = block(rows, half, 24, 64)
	}
	return b, nil
}

// add adds a key to its limit.
func (b *Began) add(row *admin.Denied) {
	at := slices.IndexFunc(b.Limits, func(l Limit) bool { return l.Name == row.Key.Name })
	if at < 0 {
		at = len(b.Limits)
		b.Limits = append(b.Limits, Limit{Name: row.Key.Name, Since: row.Since.Time()})
	}
	l := &b.Limits[at]
	b.Denied, l.Denied, l.Keys = b.Denied+row.Count, l.Denied+row.Count, l.Keys+1
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

// rollback returns the rollback of the version in force if it was published just before more than half of the denials
// began; nil if it was not.
func rollback(rows []*admin.Denied, half int64, state *published.State) []string {
	before := state.Before()
	if len(state.Lines) == 0 || state.Broken != nil || before == 0 || !state.Kept(before) {
		return nil
	}
	last, denied := &state.Lines[len(state.Lines)-1], int64(0)
	for _, row := range rows {
		if at := store.InstantOf(last.At); at <= row.Since && at.Until(row.Since) <= Window {
			denied += row.Count
		}
	}
	if !last.PutInForce() || last.Of != 0 || last.Version != state.Head.Version || denied <= half {
		return nil
	}
	return []string{"config", "rollback", strconv.FormatInt(before, 10), "--reason",
		fmt.Sprintf("denials began after version %d", last.Version)}
}
