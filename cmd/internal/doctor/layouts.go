package doctor

import (
	"context"
	"errors"
	"slices"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Layouts say how to look at the keys of other limiters.
type Layouts struct {
	// Keys reads those of other limiters; nil means not to.
	Keys admin.Keyspace
	// Subjects selects among them.
	Subjects store.Pattern
	// ResetNoTTL returns the command that shows what a reset of the keys of a layout that never expire would delete.
	ResetNoTTL func(layout string) string
}

// layoutFacts are the results of reading the keys of other limiters. Their size does not grow with the number of
// keys.
type layoutFacts struct {
	looked, total int64
	complete      bool
	layouts       map[string]*layoutCount
	defects       map[layoutDefect]*defectCount
	// unsure are keys that may be of several layouts, or of none; mayBe are these layouts.
	unsure      sample
	unsureNoTTL sample // those of them that never expire
	mayBe       []string
	unreadable  sample // keys of a requested layout whose values it cannot have written
}

// layoutCount counts the limits of one layout.
type layoutCount struct {
	limits, atLimit, limitUnknown int64
}

// layoutDefect is a defect of keys of a layout.
type layoutDefect struct {
	layout string
	admin.Defect
}

// defectCount counts the keys with a defect, and those of them at their limit.
type defectCount struct {
	sample
	atLimit int64
}

// layouts looks at the keys of other limiters, if requested.
func (e *examination) layouts(ctx context.Context, _ []*server) error {
	if e.Layouts.Keys == nil {
		return nil
	}
	facts, err := e.lookByLayouts(ctx)
	switch {
	case store.IsAway(err) || ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case err != nil:
		e.report.add(Finding{Check: "layouts", Status: Warn, Summary: "the keys of other limiters cannot be looked at: " + oneLine(err),
			Advice: "the user needs the rights to read all keys; see docs/operations.md"})
		return nil
	}
	e.report.add(facts.judge(e.Layouts.ResetNoTTL)...)
	return nil
}

// lookByLayouts reads the keys, up to the limit.
func (e *examination) lookByLayouts(ctx context.Context) (*layoutFacts, error) {
	facts := &layoutFacts{complete: true, layouts: map[string]*layoutCount{}, defects: map[layoutDefect]*defectCount{}}
	scanning, stop := context.WithCancel(ctx)
	defer stop()
	query := admin.Query{Subjects: e.Layouts.Subjects, Progress: func(looked, total int64) {
		facts.looked, facts.total = looked, total
		if e.ScanLimit > 0 && looked >= int64(e.ScanLimit) && looked < total {
			facts.complete = false
			stop()
		}
	}}
	for entry, err := range e.Layouts.Keys.Scan(scanning, query) {
		switch unsure := (*layouts.UnsureError)(nil); {
		case errors.As(err, &unsure):
			facts.addUnsure(unsure)
		case errors.Is(err, store.ErrForeign):
			facts.unreadable.add(oneLine(err))
		case err != nil && !facts.complete && ctx.Err() == nil:
			return facts, nil // the scan stopped here
		case err != nil:
			return facts, err
		default:
			facts.add(&entry)
		}
		if !facts.complete {
			break
		}
	}
	return facts, nil
}

func (f *layoutFacts) add(e *admin.Entry) {
	count := f.layouts[e.Layout]
	if count == nil {
		count = &layoutCount{}
		f.layouts[e.Layout] = count
	}
	count.limits++
	if e.AtLimit() {
		count.atLimit++
	}
	if !e.RemainingKnown() {
		count.limitUnknown++
	}
	for _, defect := range e.Defects {
		of := layoutDefect{e.Layout, defect}
		if f.defects[of] == nil {
			f.defects[of] = &defectCount{}
		}
		f.defects[of].add(e.StoreKey)
		if e.AtLimit() {
			f.defects[of].atLimit++
		}
	}
}

func (f *layoutFacts) addUnsure(e *layouts.UnsureError) {
	f.unsure.add(e.StoreKey)
	if e.NeverExpires {
		f.unsureNoTTL.add(e.StoreKey)
	}
	for _, name := range e.Layouts {
		if !slices.Contains(f.mayBe, name) {
			f.mayBe = append(f.mayBe, name)
		}
	}
}
