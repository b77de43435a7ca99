package dash

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// politeRate is how many keys a second are read in all, of those followed and of those
// that a scan comes across: each costs a Redis of our test machine 4 µs, so that is 8 %
// of a core. Of it a scan has at least a quarter.
const politeRate = 20_000

// scanRate is how many keys a second a scan looks at.
func (o *Options) scanRate() int {
	if o.ScanRate != 0 {
		return max(0, o.ScanRate)
	}
	following := int(float64(o.MaxKeys) / max(o.Refresh, o.leastRefresh(o.MaxKeys)).Seconds())
	return max(politeRate/4, politeRate-following)
}

// leastRefresh is the shortest time between two looks at that many keys.
func (o *Options) leastRefresh(keys int) time.Duration {
	return time.Duration(keys) * time.Second / (politeRate / 2)
}

// atOnce is the ScanRate without a bound.
const atOnce = -1

// reportEvery is how often a scan says what it has found.
const reportEvery = 250 * time.Millisecond

// scanned is what a scan has found since it last said so. Counts are of the whole
// pass so far.
type scanned struct {
	readings      []Reading // those closest to their limit
	looked, total int64
	matched       int64
	atLimit       int64
	unsure        int64 // keys that may be of another limiter, and were left out
	unsureNoTTL   int64 // those of them that never expire
	done          bool
	err           error
	took          time.Duration
	groups        *groupTotals // of the whole pass, once it is done

	next <-chan scanned
}

// pass is one way through all keys.
type pass struct {
	force
	// followed are known already, and only counted.
	followed map[ID]bool
	// matched and atLimit are how many of those are in use, and at their limit.
	matched, atLimit int64
	// groups counts them all by what they have in common.
	groups *groupTotals
	// rate is how many keys a second are looked at. The options it follows from are
	// the loop's to change.
	rate int
}

// start begins the pass. What it finds comes as messages of type scanned. Call await
// after each of them.
func (p *pass) start(ctx context.Context) tea.Cmd {
	found := make(chan scanned)
	panics.Go(func() error { p.run(ctx, found); return nil }, func(panicked error) {
		if panicked != nil { // it would leave the terminal as it is
			select {
			case found <- scanned{done: true, err: panicked}:
			case <-ctx.Done():
			}
		}
		close(found)
	})
	return await(found)
}

// await waits for more of a scan.
func await(found <-chan scanned) tea.Cmd {
	return func() tea.Msg {
		s, more := <-found
		if !more {
			return nil
		}
		s.next = found
		return s
	}
}

func (p *pass) run(ctx context.Context, found chan<- scanned) {
	begun := p.Now()
	reported := begun
	now := scanned{matched: p.matched, atLimit: p.atLimit}
	report := func(done bool) {
		slices.SortFunc(now.readings, closestFirst)
		now.readings = slices.Clip(now.readings[:min(len(now.readings), p.MaxKeys)])
		if now.done, now.took = done, p.Now().Sub(begun); done {
			now.groups = p.groups
		}
		select {
		case found <- now:
		case <-ctx.Done():
		}
		if now.readings = nil; !done { // nobody waits for what comes after the last
			reported = p.Now()
		}
	}
	query := p.Query
	query.KeysPerSecond = p.rate
	query.Match = func(key store.Key) bool { // of another limiter's key it does not say which one it is
		return !p.followed[own(key)] && (p.Query.Match == nil || p.Query.Match(key))
	}
	query.Progress = func(looked, total int64) {
		now.looked, now.total = looked, total
		if p.Now().Sub(reported) >= reportEvery {
			report(false)
		}
	}
	for entry, err := range p.force.scan(ctx, query) {
		if unsure := unsureOf(err); unsure != nil {
			now.unsure++
			if unsure.NeverExpires {
				now.unsureNoTTL++
			}
		}
		if isOfOneKey(err) {
			continue
		}
		if now.err = err; err != nil {
			break
		}
		if p.Keep != nil && !p.Keep(&entry) {
			continue
		}
		reading := Reading{Entry: entry}
		now.matched++
		if reading.atLimit() {
			now.atLimit++
		}
		p.groups.add(&reading)
		now.readings = append(now.readings, reading)
	}
	if ctx.Err() == nil {
		report(true)
	}
}

// closestFirst orders readings by how close they are to their limit, then by key.
func closestFirst(a, b Reading) int {
	return cmp.Or(cmp.Compare(b.share(), a.share()), compareIDs(idOf(&a.Entry), idOf(&b.Entry)))
}

// isOfOneKey reports whether an error is of one key alone, so that the others can be read.
func isOfOneKey(err error) bool { return errors.Is(err, store.ErrForeign) || unsureOf(err) != nil }

// unsureOf returns the error that says that a key may be of a limiter, or nil.
func unsureOf(err error) *foreign.UnsureError {
	var unsure *foreign.UnsureError
	errors.As(err, &unsure)
	return unsure
}

// oneLine puts an error on one line of a length that a screen can have.
func oneLine(err error) string {
	const longest = 2000
	return output.Shorten(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), longest)
}
