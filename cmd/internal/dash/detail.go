package dash

import (
	"context"
	"fmt"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// detailView is the screen about one key.
type detailView struct {
	key    ID
	read   *detail // nil until the store has answered
	scroll int
}

// absorb takes in what was read. It may be of the key that was looked at before.
func (v *detailView) absorb(read *detail) {
	if v.read = read; read != nil && read.of != v.key {
		v.read = nil
	}
}

func (v *detailView) move(m *model, by int) { v.scroll = m.scrollBy(v.scroll, by, v.text(m)) }

func (v *detailView) enter(*model) tea.Cmd { return nil }

func (v *detailView) click(*model, int, int) tea.Cmd { return nil }

func (v *detailView) hints(m *model) string {
	switch {
	case m.mayChange() && m.isOthers():
		return "esc back  r reset"
	case m.mayChange():
		return "esc back  r reset  o override"
	}
	return "esc back"
}

func (v *detailView) lines(m *model) []line { return m.textFrom(v.scroll, v.text(m)) }

// detail is what is asked about a key that is looked at by itself.
type detail struct {
	of     ID
	record []byte
	// parts are the store keys of a limit of another limiter, and at when they were read, by
	// the store's clock.
	parts []admin.Part
	at    store.Instant
	fits  []fit
}

// fit is when that many units fit.
type fit struct {
	units int64
	at    time.Time // by the store's clock
	in    time.Duration
}

func (f *fit) words(now time.Time) string {
	units := output.Plural(int(f.units), "unit")
	if f.in == 0 {
		return units + ": now"
	}
	return fmt.Sprintf("%s: in %s, at %s", units, output.Duration(f.in), f.at.In(now.Location()).Format("15:04:05.000"))
}

// readDetail asks when one, half and all units of a key fit, and reads its record. It
// returns nil for a key that is unused. Of one that is blocked nothing fits before the block ends.
func (r *reader) readDetail(ctx context.Context, id ID, f force) (*detail, error) {
	query := QueryOf(r.Query.Subjects, []ID{id})
	query.Records = id.StoreKey == "" // of another limiter the parts are enough
	for entry, err := range f.scan(ctx, query) {
		if err != nil {
			if isOfOneKey(err) {
				return nil, nil
			}
			return nil, err
		}
		if idOf(&entry) != id { // its value holds several limits
			continue
		}
		d := &detail{of: id, record: entry.Record.Value, parts: entry.Record.Parts, at: entry.At}
		if !entry.LimitKnown() || entry.Layout != "" || isBlock(f.override(id.Key)) {
			return d, nil
		}
		capacity := entry.Limit.Capacity()
		asked := int64(0)
		for _, units := range []int64{1, (capacity + 1) / 2, capacity} {
			if units == asked { // of a small limit they are the same
				continue
			}
			asked = units
			var decision [1]store.Decision
			if err := r.Store.Decide(ctx, store.Peek, []store.Request{{Key: id.Key, Limit: entry.Limit, Cost: units}},
				decision[:]); err != nil {
				return nil, err
			}
			d.fits = append(d.fits, fit{units: units, in: decision[0].RetryAfter, at: decision[0].At.Time().Add(decision[0].RetryAfter)})
		}
		return d, nil
	}
	return nil, nil
}
