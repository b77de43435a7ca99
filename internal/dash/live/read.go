package live

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// seen is what a key was at a look, from which the next look tells what was taken.
type seen struct {
	at    store.Instant
	used  int64
	limit store.Limit  // the recorded one; zero for a key that was unused
	state *store.State // nil if it was not read
}

// taken returns the units that were charged since s was seen.
func (s *seen) taken(now *admin.Entry) int64 {
	left := s.used // of what was used then
	switch {
	case s.state != nil: // which says it exactly
		left = s.state.Used(now.At)
	case s.limit.Period > 0: // a large log, taken as even
		passed := time.Duration(now.At-s.at) * time.Microsecond
		left -= int64(float64(s.used) * min(1, float64(passed)/float64(s.limit.Period)))
	}
	return max(0, now.Used-left)
}

// reader looks at the followed keys, one look at a time, so that what it remembers needs no lock.
type reader struct {
	*Options
	before map[store.Key]seen
}

// fetched is what one look at the keys brought.
type fetched struct {
	Time time.Time
	Keys []Reading
	// Asked are the keys that were looked for; those that are not among Keys are unused.
	Asked []store.Key
	// Away are nodes that did not answer, while others did. Err is why none did.
	Away []away
	Err  error
	Took time.Duration
}

// away is a node that did not answer, and its keys, which are still as they were.
type away struct {
	Node string
	Keys []store.Key
}

// Fetch looks at keys, those of each node by themselves, so that one that is away keeps no other from being read.
func (r *reader) Fetch(ctx context.Context, keys []store.Key, rules rules) tea.Cmd {
	return func() tea.Msg {
		begun := r.Now()
		answer := fetched{Time: begun}
		byNode := map[string][]store.Key{}
		for _, key := range keys {
			name := ""
			if r.NodeOf != nil {
				name = r.NodeOf(ctx, key.Subject)
			}
			byNode[name] = append(byNode[name], key)
		}
		done := make(chan part, len(byNode))
		for node, keys := range byNode {
			p := part{node: node, keys: keys}
			panics.Go(func() (err error) {
				p.readings, err = r.readEach(ctx, keys, rules)
				return err
			}, func(err error) {
				p.err = err
				done <- p
			})
		}
		now := make(map[store.Key]seen, len(keys))
		for range byNode {
			p := <-done
			r.absorb(&answer, now, &p)
			if p.err != nil && len(answer.Away) == len(byNode) { // all are away
				answer.Err, answer.Away = p.err, nil
			}
		}
		r.before = now
		answer.Took = r.Now().Sub(begun)
		return answer
	}
}

type part struct {
	node     string
	keys     []store.Key
	readings []Reading
	err      error
}

// absorb takes in what reading a node brought. Of one that does not answer, what was known before stays.
func (r *reader) absorb(answer *fetched, now map[store.Key]seen, p *part) {
	for _, key := range p.keys {
		now[key] = seen{} // unused, unless it is among the readings
		if before, known := r.before[key]; known && p.err != nil {
			now[key] = before
		}
	}
	if p.err == nil {
		answer.Asked = append(answer.Asked, p.keys...)
	} else {
		answer.Away = append(answer.Away, away{p.node, p.keys})
	}
	readings := p.readings
	for i := range readings {
		e := &readings[i].Entry
		if before, known := r.before[e.Key]; known {
			readings[i].Taken = before.taken(e)
		}
		now[e.Key] = seen{e.At, e.Used, e.LastLimit(), e.State}
		e.State = nil // which is for the next look alone
	}
	answer.Keys = append(answer.Keys, readings...)
}

func (r *reader) readEach(ctx context.Context, keys []store.Key, f rules) (readings []Reading, err error) {
	query := admin.Query{Keys: keys, States: true}
	readings = make([]Reading, 0, len(keys))
	for entry, err := range f.scan(ctx, query) {
		if errors.Is(err, store.ErrForeign) { // it is of one key alone
			continue
		}
		if err != nil {
			return readings, err
		}
		readings = append(readings, Reading{Entry: entry})
	}
	return readings, nil
}
