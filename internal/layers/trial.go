package layers

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// mostTrials is the most trials of one store that are decided apart at once. Further ones are left out.
	mostTrials = 16
	// trialTime bounds a trial that is decided apart.
	trialTime = time.Second
)

// WithTrials wraps backend so that the trials of requests ([store.Trial]) are judged. A call without trials goes through
// unchanged.
//
// What a trial shares with the call is judged on the answer, and costs nothing. What has keys of its own is decided in the same
// call, as shadow limits, where one script can decide both: in a take without a token, by the same subject or on a store without
// shards. Otherwise it is decided apart, after the call. No call waits for that, and when too many are under way, further
// ones are not judged.
//
// No call fails because of a trial: if the store refuses the keys of one, such as a key that is not limitctl's, the call is decided
// again without them, and from then on trials are decided apart. It charges what the next version would: in a call that is
// denied, nothing.
func WithTrials(backend store.Store) store.Store {
	s := &trialStore{Store: backend}
	s.sharded, _ = store.As[store.Sharded](backend)
	return store.Wrap(s, backend)
}

type trialStore struct {
	store.Store
	sharded store.Sharded // nil for a store without shards
	apart   atomic.Bool   // the store refused a trial in a call
	running atomic.Int32  // trials that are decided apart
}

// Decide implements [store.Store].
func (s *trialStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	for i := range reqs {
		if reqs[i].Trial != nil {
			return s.decideTried(ctx, op, reqs, decisions)
		}
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}

// decideTried decides a call with trials.
func (s *trialStore) decideTried(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	own, refused := ownRequests(reqs), false
	if len(own) > 0 && op == store.Take && s.together(reqs, own) {
		all := make([]store.Decision, len(reqs)+len(own))
		err := s.Store.Decide(ctx, op, slices.Concat(reqs, own), all)
		if err == nil {
			copy(decisions, all)
			judge(reqs, decisions, own, all[len(reqs):])
			return nil
		}
		if !errors.Is(err, store.ErrForeign) && !errors.Is(err, store.ErrRefused) && !errors.Is(err, store.ErrInvalid) ||
			errors.Is(err, store.ErrOutcomeUnknown) {
			return err
		}
		refused = true // nothing was charged
	}
	if err := s.Store.Decide(ctx, op, reqs, decisions); err != nil {
		return err
	}
	if refused { // only because of the trial
		s.apart.Store(true)
	}
	switch {
	case (op == store.Take || op == store.Charge) && decisions[0].Repeated: // it was judged, or charged, the first time
	case len(own) > 0:
		s.decideApart(ctx, op, reqs, decisions, own)
	case op == store.Take:
		judge(reqs, decisions, nil, nil)
	}
	return nil
}

// ownRequests returns the requests of trials that have keys of their own, as shadow limits.
func ownRequests(reqs []store.Request) (own []store.Request) {
	for i := range reqs {
		if reqs[i].Trial == nil {
			continue
		}
		for _, req := range reqs[i].Trial.Requests {
			same := func(other store.Request) bool { return other.Key == req.Key }
			if slices.ContainsFunc(reqs, same) || slices.ContainsFunc(own, same) {
				continue
			}
			req.Shadow, req.Trial = true, nil
			own = append(own, req)
		}
	}
	return own
}

// together reports whether one call can decide both.
func (s *trialStore) together(reqs, own []store.Request) bool {
	if reqs[0].Token != "" || len(reqs)+len(own) > store.MaxRequests || s.apart.Load() {
		return false
	}
	if s.sharded == nil || s.sharded.Shard(reqs[0].Key) == "" {
		return true
	}
	return !slices.ContainsFunc(own, func(req store.Request) bool {
		return !slices.ContainsFunc(reqs, func(other store.Request) bool { return other.Key.Subject == req.Key.Subject })
	})
}

// decideApart decides the trials of a call that was decided.
func (s *trialStore) decideApart(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision,
	own []store.Request) {
	switch op {
	case store.Take:
		if !store.AllAllowed(decisions) { // it charged nothing
			op = store.Peek
		}
	case store.Charge:
	case store.Refund:
		if reqs[0].Token != "" {
			return // what the token was charged there is not remembered
		}
	default:
		return
	}
	if s.running.Add(1) > mostTrials {
		s.running.Add(-1)
		if op == store.Take || op == store.Peek {
			tell(reqs, decisions, nil)
		}
		return
	}
	reqs, decisions = slices.Clone(reqs), slices.Clone(decisions) // the caller's are its own again
	takes := op == store.Take || op == store.Peek
	panics.Go(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trialTime)
		defer cancel()
		found := make([]store.Decision, len(own))
		err := s.Store.Decide(ctx, op, own, found)
		switch {
		case !takes:
		case err != nil:
			tell(reqs, decisions, nil)
		default:
			judge(reqs, decisions, own, found)
		}
		return nil
	}, func(error) { s.running.Add(-1) })
}

// judge judges the trials of a take; found answers own.
func judge(reqs []store.Request, decisions []store.Decision, own []store.Request, found []store.Decision) {
	tell(reqs, decisions, func(req *store.Request) (allowed, known bool) {
		for i := range reqs {
			if reqs[i].Key == req.Key {
				return wouldAllow(req, &decisions[i])
			}
		}
		for i := range own {
			if own[i].Key == req.Key {
				d := &found[i]
				exempt := d.Override != nil && d.Override.Effect == store.OverrideExempt
				return d.Allowed || exempt, isStores(d)
			}
		}
		return false, false
	})
}

// isStores reports whether a decision tells what is in use in the store.
func isStores(d *store.Decision) bool {
	return !d.Unguarded && d.DecidedBy != store.DecidedByLocal && d.DecidedBy != store.DecidedByFailurePolicy
}

// wouldAllow reports whether req would be allowed by the usage that d describes, which is that of its key.
func wouldAllow(req *store.Request, d *store.Decision) (allowed, known bool) {
	if !isStores(d) {
		return false, false
	}
	under := *req
	if o := d.Override; o != nil {
		switch o.Effect {
		case store.OverrideBlock:
			return d.Allowed, true
		case store.OverrideExempt:
			return true, true
		default:
			under.SetLimit(o.Apply(req.Limit))
		}
	}
	return d.Used-d.Granted+req.Cost <= under.Capacity(), true
}

// tell tells the owners of trials how they are judged; ask is nil if that is not known.
func tell(reqs []store.Request, decisions []store.Decision, ask func(req *store.Request) (allowed, known bool)) {
	for i := range reqs {
		t := reqs[i].Trial
		if t == nil || t.Judged == nil {
			continue
		}
		next := make([]bool, len(t.Requests))
		for j := range t.Requests {
			known := false
			if ask != nil {
				next[j], known = ask(&t.Requests[j])
			}
			if !known {
				next = nil
				break
			}
		}
		panics.Call(func() error { // a bug there fails no call
			t.Judged(t, reqs, decisions, next)
			return nil
		})
	}
}
