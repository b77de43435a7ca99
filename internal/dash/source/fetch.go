// Package source reads what a dashboard shows: the followed keys (fetch.go, nodes.go), all keys
// (scan.go), denials and overrides, It runs outside the loop of
// the dashboard and knows nothing of what is drawn.
package source

import (
	"context"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Reader looks at the followed keys. One look at a time is under way, so that what
// it remembers of the look before needs no lock; what is shown it knows nothing of.
type Reader struct {
	*Options
	nodes map[string]*node
	// servers are asked no more than once a second, however often keys are.
	servers []Server
	asking  chan []Server // while they are being asked
	askedAt time.Time
}

// NewReader returns a Reader of the store of o.
func NewReader(o *Options) *Reader { return &Reader{Options: o, nodes: map[string]*node{}} }

// Request is what the loop wants to know.
type Request struct {
	Keys     []ID
	Coverage Coverage
	Detail   *ID
	Rules    Rules
}

// Fetched is the answer to a request.
type Fetched struct {
	Snapshot
	Err  error
	Took time.Duration
}

// Fetch looks at the keys of a request.
func (r *Reader) Fetch(ctx context.Context, ask Request) tea.Cmd {
	return func() tea.Msg {
		begun := r.Now()
		answer := Fetched{Snapshot: Snapshot{Time: begun, Store: r.Where, Layouts: r.Layouts, Coverage: ask.Coverage}}
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
func (r *Reader) askServers(ctx context.Context, now time.Time) {
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
func (r *Reader) awaitServers(ctx context.Context) []Server {
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
func (r *Reader) readEach(ctx context.Context, keys []ID, f Rules, before, now map[ID]seen) (readings []Reading, err error) {
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
		id, s := IDOf(&entry), newSeen(&entry)
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
func (r *Reader) readDetail(ctx context.Context, id ID, f Rules) (*Detail, error) {
	query := QueryOf(r.Query.Subjects, []ID{id})
	query.Records = id.StoreKey == "" // of another limiter the parts are enough
	for entry, err := range f.scan(ctx, query) {
		if err != nil {
			if isOfOneKey(err) {
				return nil, nil
			}
			return nil, err
		}
		if IDOf(&entry) != id { // its value holds several limits
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
