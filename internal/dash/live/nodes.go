package live

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/limitctl/limitctl/internal/panics"
)

// node is a server that has some of the keys. Each is read by itself, so that one that does
// not answer does not keep the keys of others from being read.
type node struct {
	before  map[ID]seen
	spare   map[ID]seen     // an empty one, for the next look; nil if there is none
	reading chan nodeAnswer // while it is being read
	away    bool            // it did not answer the last time
	problem error           // why
}

// nodeAnswer is what reading a node brought.
type nodeAnswer struct {
	keys     []ID // that were asked for
	readings []Reading
	now      map[ID]seen
	err      error
}

// read looks at the keys of a request, those of each node by themselves. For a node that did
// not answer the last time it does not wait: its answer is taken at a later look.
func (r *reader) read(ctx context.Context, ask *request, answer *fetched) {
	byNode := map[string][]ID{}
	for _, key := range ask.Keys {
		name := ""
		if r.NodeOf != nil {
			name = r.NodeOf(ctx, key.tag())
		}
		byNode[name] = append(byNode[name], key)
	}
	names := slices.Sorted(maps.Keys(byNode))
	for _, name := range names {
		n := r.nodes[name]
		if n == nil {
			n = &node{before: map[ID]seen{}}
			r.nodes[name] = n
		}
		if n.reading == nil {
			r.readNode(ctx, n, byNode[name], ask.Rules)
		}
	}
	answer.Keys = []Reading{}
	for _, name := range names {
		n := r.nodes[name]
		if !n.await(ctx, !n.away || len(names) == 1, answer) {
			answer.Away = append(answer.Away, newAway(name, n.problem, byNode[name]))
		}
	}
	for name := range r.nodes {
		if byNode[name] == nil && r.nodes[name].reading == nil {
			delete(r.nodes, name)
		}
	}
	if len(names) > 0 && len(answer.Away) == len(names) {
		answer.Err, answer.Away = r.nodes[names[0]].problem, nil
	}
}

// readNode begins to read keys of a node.
func (r *reader) readNode(ctx context.Context, n *node, keys []ID, f rules) {
	reading := make(chan nodeAnswer, 1)
	n.reading = reading
	a := nodeAnswer{keys: keys, now: n.spare}
	if n.spare = nil; a.now == nil {
		a.now = make(map[ID]seen, len(keys))
	}
	before := n.before
	panics.Go(func() (err error) {
		a.readings, err = r.readEach(ctx, keys, f, before, a.now)
		return err
	}, func(err error) {
		a.err = err
		reading <- a
	})
}

// await takes in what reading the node brought, if that is there or is to be waited for. It
// reports whether the node answered.
func (n *node) await(ctx context.Context, wait bool, answer *fetched) bool {
	a, come := receive(ctx, n.reading, wait)
	if !come {
		n.problem = cmp.Or(n.problem, ctx.Err())
		return false
	}
	n.reading, n.away, n.problem = nil, a.err != nil, a.err
	if len(answer.Keys) == 0 && a.readings != nil {
		answer.Keys = a.readings
	} else {
		answer.Keys = append(answer.Keys, a.readings...)
	}
	if n.away { // what is known of the others is still so
		maps.Copy(n.before, a.now)
		n.keep(a.now)
		return false
	}
	answer.Asked = append(answer.Asked, a.keys...)
	for _, key := range a.keys {
		if _, there := a.now[key]; !there {
			a.now[key] = seen{} // it is unused
		}
	}
	n.keep(n.before)
	n.before = a.now
	return true
}

// keep keeps a map that is not needed any more for the next look: two in turn hold what many looks see.
func (n *node) keep(spare map[ID]seen) {
	clear(spare)
	n.spare = spare
}

// receive takes what comes through a channel, and waits for it if it is to.
func receive[T any](ctx context.Context, from <-chan T, wait bool) (value T, come bool) {
	select {
	case value = <-from:
		return value, true
	default:
	}
	if !wait {
		return value, false
	}
	select {
	case value = <-from:
		return value, true
	case <-ctx.Done():
		return value, false
	}
}

func newAway(name string, problem error, keys []ID) away {
	a := away{Node: name, Keys: make([]keyName, len(keys))}
	if problem != nil {
		a.Problem = OneLine(problem)
	}
	for i, key := range keys {
		a.Keys[i] = keyName{key.Subject, key.Name, key.StoreKey}
	}
	return a
}
