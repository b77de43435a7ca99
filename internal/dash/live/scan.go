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
	"github.com/limitctl/limitctl/pkg/limiter/admin"
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

// scanned is what a scan has found since it last said so. Counts are of the whole
// pass so far.
type scanned struct {
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
	Next <-chan scanned
}

// pass is one way through all keys.
type pass struct {
	rules
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

// await waits for more of a scan.
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
	now := scanned{Matched: p.Matched, AtLimit: p.AtLimit, Pass: p.Number}
	var wanted []Reading
	report := func(done bool) {
		byCloseness := func(a, b Reading) int { return closestFirst(&a, &b) }
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
		if p.Wanted != nil && p.Wanted(&last) {
			now.Wanted++
			wanted = append(wanted, last)
			continue
		}
		if last.UsedShare() >= math.Float64frombits(p.LeastShare.Load()) {
			now.Readings = append(now.Readings, last)
		}
	}
	if ctx.Err() == nil {
		report(true)
	}
}

// closestFirst orders readings by how close they are to their limit, then by key.
func closestFirst(a, b *Reading) int {
	if c := cmp.Compare(b.UsedShare(), a.UsedShare()); c != 0 { // which decides most of the millions that a scan compares
		return c
	}
	return CompareIDs(iDOf(&a.Entry), iDOf(&b.Entry))
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

// seen is what a key was at a look, from which the next look tells what was taken.
type seen struct {
	at    store.Instant
	used  int64
	limit store.Limit  // the recorded one; zero for a key that was unused
	state *store.State // nil if it was not read
	// resets is when the key is unused again if nothing is taken, and resetKnown whether that
	// is known.
	resets     store.Instant
	resetKnown bool
	other      bool // another limiter wrote it
}

func newSeen(e *admin.Entry) seen {
	return seen{at: e.At, used: e.Used, limit: e.LastLimit(), state: e.State, other: e.Layout != "",
		resets: e.At + store.Instant(e.ResetAfter/time.Microsecond), resetKnown: e.ResetKnown() && !NeverBegins(e)}
}

// NeverBegins reports whether another window never begins for an entry: windows that begin with the
// first request end with their key, and it never does.
func NeverBegins(e *admin.Entry) bool { return e.Limit.FromFirst && e.TTL < 0 }

// taken returns the units that were charged since s was seen.
func (s *seen) taken(now *seen) int64 {
	left := s.used // of what was used then
	switch {
	case now.other:
		return s.takenOfOther(now)
	case s.state != nil: // which says it exactly
		left = s.state.Used(now.at)
	case s.limit.Period > 0: // a large log, taken as even
		left -= s.evenly(now.at)
	}
	return max(0, now.used-left)
}

// evenly is how many of the units in use passed until now, if they were taken evenly.
func (s *seen) evenly(now store.Instant) int64 {
	elapsed := time.Duration(now-s.at) * time.Microsecond
	return int64(float64(s.used) * min(1, float64(elapsed)/float64(s.limit.Period)))
}

// takenOfOther is taken for a key of another limiter, of which there is no state.
func (s *seen) takenOfOther(now *seen) int64 {
	const clocks = store.Instant(1_000_000) // expiries are told in whole ms, and by several clocks
	switch now.limit.Algorithm {
	case store.TokenBucket, store.LeakyBucket: // each unit puts the end off by the time that it takes to flow back
		if !now.resetKnown || now.limit.Count <= 0 || now.limit.Period <= 0 {
			return max(0, now.used-s.used)
		}
		from := max(now.at, s.resets) // s.resets is 0 for a key that was unused
		perUnit := float64(now.limit.Period) / float64(time.Microsecond) / float64(now.limit.Count)
		return max(0, int64(math.Round(float64(now.resets-from)/perUnit)))
	case store.SlidingCounter, store.SlidingLog:
		if now.limit.Period > 0 && s.limit.Period > 0 {
			return max(0, now.used-s.used+s.evenly(now.at))
		}
		return max(0, now.used-s.used)
	default: // the others go on below
	}
	isNext := now.resetKnown && s.resetKnown && now.resets > s.resets+clocks
	if isNext || now.used < s.used { // another window has begun
		return now.used
	}
	return now.used - s.used
}

// reader looks at the followed keys. One look at a time is under way, so that what
// it remembers of the look before needs no lock; what is shown it knows nothing of.
type reader struct {
	*Options
	nodes map[string]*node
	// servers are asked no more than once a second, however often keys are.
	servers []Server
	asking  chan []Server // while they are being asked
	askedAt time.Time
}

// request is what the loop wants to know.
type request struct {
	Keys     []ID
	Coverage Coverage
	Detail   *ID
	Rules    rules
}

// fetched is the answer to a request.
type fetched struct {
	snapshot
	Err  error
	Took time.Duration
}

// Fetch looks at the keys of a request.
func (r *reader) Fetch(ctx context.Context, ask request) tea.Cmd {
	return func() tea.Msg {
		begun := r.Now()
		answer := fetched{snapshot: snapshot{Time: begun, Store: r.Where, Layouts: r.Layouts, Coverage: ask.Coverage}}
		if r.Servers != nil && r.asking == nil && begun.Sub(r.askedAt) >= time.Second {
			r.askServers(ctx, begun)
		}
		r.read(ctx, &ask, &answer)
		answer.Servers = r.awaitServers(ctx)
		if ask.Detail != nil && answer.Err == nil && !answer.isUnread(*ask.Detail) {
			answer.Detail, answer.Err = r.readDetail(ctx, *ask.Detail, ask.Rules)
		}
		if answer.Err != nil {
			answer.Problem = OneLine(answer.Err)
		}
		answer.Took = r.Now().Sub(begun)
		return answer
	}
}

// askServers begins to ask the servers.
func (r *reader) askServers(ctx context.Context, now time.Time) {
	asking := make(chan []Server, 1)
	r.asking, r.askedAt = asking, now
	var all []Server
	panics.Go(func() error { all = r.Servers(ctx); return nil }, func(err error) {
		if err != nil {
			all = []Server{{Problem: OneLine(err)}}
		}
		asking <- all
	})
}

// awaitServers returns what the servers said last. It waits for their answer if all gave one
// the last time: those that do take no time.
func (r *reader) awaitServers(ctx context.Context) []Server {
	if r.asking == nil {
		return r.servers
	}
	hasProblem := slices.ContainsFunc(r.servers, func(s Server) bool { return s.Problem != "" })
	if all, answered := receive(ctx, r.asking, !hasProblem); answered {
		r.servers, r.asking = all, nil
	}
	return r.servers
}

// readEach reads the keys of a node, and makes now what they are.
func (r *reader) readEach(ctx context.Context, keys []ID, f rules, before, now map[ID]seen) (readings []Reading, err error) {
	query := QueryOf(r.Query.Subjects, keys)
	query.States = true
	readings = make([]Reading, 0, len(keys))
	for entry, err := range f.scan(ctx, query) {
		if isOfOneKey(err) {
			continue
		}
		if err != nil {
			return readings, err
		}
		id, s := iDOf(&entry), newSeen(&entry)
		entry.State = nil // which is for the next look alone
		reading := Reading{Entry: entry}
		if before, known := before[id]; known && entry.UsedKnown() {
			reading.Taken = before.taken(&s)
		}
		now[id] = s
		readings = append(readings, reading)
	}
	return readings, nil
}

// readDetail asks when one, half and all units of a key fit, and reads its record. It
// returns nil for a key that is unused. Of one that is blocked nothing fits before the block ends.
func (r *reader) readDetail(ctx context.Context, id ID, f rules) (*Detail, error) {
	query := QueryOf(r.Query.Subjects, []ID{id})
	query.Records = id.StoreKey == "" // of another limiter the parts are enough
	for entry, err := range f.scan(ctx, query) {
		if err != nil {
			if isOfOneKey(err) {
				return nil, nil
			}
			return nil, err
		}
		if iDOf(&entry) != id { // its value holds several limits
			continue
		}
		d := &Detail{Of: id, Record: entry.Record.Value, Parts: entry.Record.Members, At: entry.At}
		if !entry.LimitKnown() || entry.Layout != "" || IsBlock(f.Override(id.Key)) {
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
			d.Fits = append(d.Fits, Fit{Units: units, In: decision[0].RetryAfter, At: decision[0].At.Time().Add(decision[0].RetryAfter)})
		}
		return d, nil
	}
	return nil, nil
}
