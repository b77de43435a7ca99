package live

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// reportEvery is how often a scan says what it has found. Each report draws the screen.
const reportEvery = 500 * time.Millisecond

// scanned is what a scan has found since it last said so. Counts are of the whole pass so far.
type scanned struct {
	Coverage
	Readings []Reading // those closest to their limit
	Wanted   int64     // how many the pass was to look for
	Done     bool
	Err      error

	Pass int // the number of the pass
	Next <-chan scanned
}

// pass is one way through all keys.
type pass struct {
	rules
	// Wanted are told before those closer to their limit. Nil if none are.
	Wanted func(*Reading) bool
	// Number tells passes apart.
	Number int
	// LeastShare is the used share, as math.Float64bits, up to which keys are only counted. The loop changes it.
	LeastShare *atomic.Uint64
}

// Start begins the pass. What it finds comes as messages of type scanned. Call await after each of them.
func (p *pass) Start(ctx context.Context) tea.Cmd {
	found := make(chan scanned)
	panics.Go(func() error { p.run(ctx, found); return nil }, func(panicked error) {
		if panicked != nil { // it would leave the terminal as it is
			select {
			case found <- scanned{Done: true, Err: panicked, Pass: p.Number}:
			case <-ctx.Done():
			}
		}
		close(found)
	})
	return await(found)
}

func await(found <-chan scanned) tea.Cmd {
	return func() tea.Msg {
		s, more := <-found
		if !more {
			return nil
		}
		s.Next = found
		return s
	}
}

func (p *pass) run(ctx context.Context, found chan<- scanned) {
	begun := p.Now()
	reported := begun
	now := scanned{Pass: p.Number}
	var wanted []Reading
	add := func(to []Reading, r *Reading) []Reading { // and keep no more than can be followed
		if to = append(to, *r); len(to) > 2*p.MaxKeys {
			slices.SortFunc(to, func(a, b Reading) int { return closestFirst(&a, &b) })
			to = to[:p.MaxKeys]
		}
		return to
	}
	report := func(done bool) {
		now.Readings = append(wanted, now.Readings...)
		reported = p.Now()
		now.Done, now.Took = done, reported.Sub(begun)
		select {
		case found <- now:
		case <-ctx.Done():
		}
		now.Readings, wanted = nil, nil
	}
	query := p.Query
	query.Progress = func(looked, total int64) {
		now.Looked, now.Total = looked, total
		if p.Now().Sub(reported) >= reportEvery {
			report(false)
		}
	}
	var last Reading // one for all, since what functions get a pointer to is on the heap
	for entry, err := range p.rules.scan(ctx, query) {
		if unsure := unsureOf(err); unsure != nil {
			now.Unsure++
			if unsure.NeverExpires {
				now.UnsureNoTTL++
			}
		}
		if isOfOneKey(err) {
			continue
		}
		if now.Err = err; err != nil {
			break
		}
		last = Reading{Entry: entry}
		if p.Keep != nil && !p.Keep(&last.Entry) {
			continue
		}
		now.Matched++
		if last.AtLimit() {
			now.AtLimit++
		}
		switch {
		case p.Wanted != nil && p.Wanted(&last):
			wanted = add(wanted, &last)
			now.Wanted++
		case last.UsedShare() > math.Float64frombits(p.LeastShare.Load()):
			now.Readings = add(now.Readings, &last)
		}
	}
	if ctx.Err() == nil {
		report(true)
	}
}

// closestFirst orders readings by how close they are to their limit, then by key.
func closestFirst(a, b *Reading) int {
	if c := cmp.Compare(b.UsedShare(), a.UsedShare()); c != 0 { // which decides most of what a scan compares
		return c
	}
	return compareIDs(iDOf(&a.Entry), iDOf(&b.Entry))
}

// isOfOneKey reports whether an error is of one key alone, so that the others can be read.
func isOfOneKey(err error) bool { return errors.Is(err, store.ErrForeign) || unsureOf(err) != nil }

// unsureOf returns the error that says that a key may be of a limiter, or nil.
func unsureOf(err error) *layouts.UnsureError {
	unsure, _ := errors.AsType[*layouts.UnsureError](err)
	return unsure
}

// OneLine puts an error on one line of a length that a screen can have.
func OneLine(err error) string {
	const longest = 2000
	return output.Shorten(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), longest)
}
