package redisstore

import (
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// work is what one decision needs besides its answer: the normalized requests, their keys,
// and a place in the queue.
//
// It belongs to the caller. While the caller waits in a queue, the lane and then an exchange
// use it, too. Only what ended well is used again: a caller that leaves, or is told of an
// error, leaves its work to whoever may still read it or write an answer to it, and so does an
// exchange with what it worked with.
type work struct {
	reqs   []store.Request
	named  []store.Key // what keys are of
	keys   []string
	words  []any // keys, as a command has them
	ask    ask
	queued queued
}

// newWork returns work for one decision.
func (s *Store) newWork() *work {
	if w, ok := s.works.Get().(*work); ok {
		return w
	}
	w := &work{}
	w.queued.done = make(chan struct{}, 1)
	return w
}

// setKeys says which keys reqs have. It spares making those that the same work had last.
func (w *work) setKeys(own admin.OwnLayout) {
	for i := range w.reqs {
		key := w.reqs[i].Key
		if i < len(w.named) && w.named[i] == key {
			continue
		}
		w.named, w.keys, w.words = w.named[:i], w.keys[:i], w.words[:i]
		name := own.StoreKey(key)
		w.named, w.keys, w.words = append(w.named, key), append(w.keys, name), append(w.words, name)
	}
	n := len(w.reqs)
	w.named, w.keys, w.words = w.named[:n], w.keys[:n], w.words[:n]
}

// toAsk returns a place in the queue for a decision, which by itself is that of script.
func (w *work) toAsk(s *Store, op store.Op, script *script) *queued {
	w.ask = ask{store: s, op: op, reqs: w.reqs, keys: w.keys, words: w.words, script: script}
	if slotOf := s.shards.slotOf; slotOf != nil {
		w.ask.slot = slotOf(w.reqs[0].Key.Subject)
	}
	w.queued = queued{ask: &w.ask, done: w.queued.done}
	return &w.queued
}
