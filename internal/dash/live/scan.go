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
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// reportEvery is how often a scan says what it has found. Each report draws the screen.
const reportEvery = 500 * time.Millisecond

// scanned is what a scan has found since it last said so. Counts are of the whole pass so far.
type scanned struct {
	Coverage
	Readings []Reading // those closest to their limit
	Done     bool
	Err      error

	Next <-chan scanned
}

// pass is one way through all keys.
type pass struct {
	rules
	// LeastShare is the used share, as math.Float64bits, up to which keys are only counted. The loop changes it.
	LeastShare *atomic.Uint64
}

// Start begins the pass. What it finds comes as messages of type scanned. Call await after each of them.
func (p *pass) Start(ctx context.Context) tea.Cmd {
	found := make(chan scanned)
	panics.Go(func() error { p.run(ctx, found); return nil }, func(panicked error) {
		if panicked != nil { // it would leave the terminal as it is
			select {
			case found <- scanned{Done: true, Err: panicked}:
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
	now := scanned{}
	report := func(done bool) {
		reported = p.Now()
		now.Done, now.Took = done, reported.Sub(begun)
		select {
		case found <- now:
		case <-ctx.Done():
		}
		now.Readings = nil
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
		if errors.Is(err, store.ErrForeign) { // it is of one key alone
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
		if last.UsedShare() <= math.Float64frombits(p.LeastShare.Load()) {
			continue
		}
		if now.Readings = append(now.Readings, last); len(now.Readings) > 2*p.MaxKeys { // which cannot all be followed
			slices.SortFunc(now.Readings, func(a, b Reading) int { return closestFirst(&a, &b) })
			now.Readings = now.Readings[:p.MaxKeys]
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
	return compareKeys(a.Key, b.Key)
}

// OneLine puts an error on one line of a length that a screen can have.
func OneLine(err error) string {
	const longest = 2000
	return output.Shorten(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), longest)
}
