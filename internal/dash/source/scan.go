package source

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

// LeastRefresh is the shortest time between two looks at that many keys: each costs a Redis of our test machine 4 µs, so looking
// takes at most 4 % of a core.
func (o *Options) LeastRefresh(keys int) time.Duration {
	return time.Duration(keys) * 100 * time.Microsecond
}

// reportEvery is how often a scan says what it has found, and reportProgress how far it is, if it has found nothing. Each
// report draws the screen.
const (
	reportEvery    = 250 * time.Millisecond
	reportProgress = time.Second
)

// Scanned is what a scan has found since it last said so. Counts are of the whole
// pass so far.
type Scanned struct {
	Readings      []Reading // those closest to their limit
	Looked, Total int64
	Matched       int64
	Wanted        int64 // of those of the pass that are wanted and were not followed when it began
	AtLimit       int64
	Unsure        int64 // keys that may be of another limiter, and were left out
	UnsureNoTTL   int64 // those of them that never expire
	Done          bool
	Err           error
	Took          time.Duration

	Pass int // the number of the pass
	Next <-chan Scanned
}

// Pass is one way through all keys.
type Pass struct {
	Rules
	// Followed are known already, and only counted.
	Followed map[ID]bool
	// Matched and atLimit are how many of those are in use, and at their limit.
	Matched, AtLimit int64
	// Wanted are looked for: they are told before those closer to their limit, and counted. Nil if none are.
	Wanted func(*Reading) bool
	// Number tells passes apart.
	Number int
	// LeastShare is the used share, as math.Float64bits, below which keys are only counted. The loop changes it meanwhile.
	LeastShare *atomic.Uint64
}

// Start begins the pass. What it finds comes as messages of type scanned. Call await
// after each of them.
func (p *Pass) Start(ctx context.Context) tea.Cmd {
	found := make(chan Scanned)
	panics.Go(func() error { p.run(ctx, found); return nil }, func(panicked error) {
		if panicked != nil { // it would leave the terminal as it is
			select {
			case found <- Scanned{Done: true, Err: panicked, Pass: p.Number}:
			case <-ctx.Done():
			}
		}
		close(found)
	})
	return Await(found)
}

// Await waits for more of a scan.
func Await(found <-chan Scanned) tea.Cmd {
	return func() tea.Msg {
		s, more := <-found
		if !more {
			return nil
		}
		s.Next = found
		return s
	}
}

func (p *Pass) run(ctx context.Context, found chan<- Scanned) {
	begun := p.Now()
	reported := begun
	now := Scanned{Matched: p.Matched, AtLimit: p.AtLimit, Pass: p.Number}
	var wanted []Reading
	report := func(done bool) {
		byCloseness := func(a, b Reading) int { return ClosestFirst(&a, &b) }
		if len(wanted)+len(now.Readings) > p.MaxKeys {
			slices.SortFunc(wanted, byCloseness)
			slices.SortFunc(now.Readings, byCloseness)
		}
		now.Readings = append(wanted, now.Readings...)
		now.Readings = slices.Clip(now.Readings[:min(len(now.Readings), p.MaxKeys)])
		now.Done, now.Took = done, p.Now().Sub(begun)
		select {
		case found <- now:
		case <-ctx.Done():
		}
		if now.Readings, wanted = nil, nil; !done { // nobody waits for what comes after the last
			reported = p.Now()
		}
	}
	query := p.Query
	query.Match = func(key store.Key) bool { // of another limiter's key it does not say which one it is
		return !p.Followed[OwnID(key)] && (p.Query.Match == nil || p.Query.Match(key))
	}
	query.Progress = func(looked, total int64) {
		now.Looked, now.Total = looked, total
		every := reportEvery
		if len(now.Readings)+len(wanted) == 0 {
			every = reportProgress
		}
		if p.Now().Sub(reported) >= every {
			report(false)
		}
	}
	var reading Reading // one for all, since what functions get a pointer to is on the heap
	for entry, err := range p.Rules.scan(ctx, query) {
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
		reading = Reading{Entry: entry}
		if p.Keep != nil && !p.Keep(&reading.Entry) {
			continue
		}
		now.Matched++
		if reading.AtLimit() {
			now.AtLimit++
		}
		if p.Wanted != nil && p.Wanted(&reading) {
			now.Wanted++
			wanted = append(wanted, reading)
			continue
		}
		if reading.UsedShare() >= math.Float64frombits(p.LeastShare.Load()) {
			now.Readings = append(now.Readings, reading)
		}
	}
	if ctx.Err() == nil {
		report(true)
	}
}

// ClosestFirst orders readings by how close they are to their limit, then by key.
func ClosestFirst(a, b *Reading) int {
	if c := cmp.Compare(b.UsedShare(), a.UsedShare()); c != 0 { // which decides most of the millions that a scan compares
		return c
	}
	return CompareIDs(IDOf(&a.Entry), IDOf(&b.Entry))
}

// isOfOneKey reports whether an error is of one key alone, so that the others can be read.
func isOfOneKey(err error) bool { return errors.Is(err, store.ErrForeign) || unsureOf(err) != nil }

// unsureOf returns the error that says that a key may be of a limiter, or nil.
func unsureOf(err error) *layouts.UnsureError {
	var unsure *layouts.UnsureError
	errors.As(err, &unsure)
	return unsure
}

// OneLine puts an error on one line of a length that a screen can have.
func OneLine(err error) string {
	const longest = 2000
	return output.Shorten(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), longest)
}
