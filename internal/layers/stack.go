// Package layers has the layers around a store, for the options of limiter.New. Each layer is a Store that wraps
// another one, and [Stack] puts them in the right order:
//
//	WithObserver      sees what callers see
//	limiter.Around    a wrapper of the application
//	WithDenialLog     counts who is denied
//	WithOverrides     applies the overrides of operators
//	DenialMemory      repeats denials without a round trip
//	WithFailure       decides while the store is away
//	WithLeases        takes units of busy keys in advance
//	WithBreaker       stops calling a store, or a shard of it ([store.Sharded]), that is away
//	WithObserver      sees what reaches the store
//	store.WithBudget  bounds the time of a call
//
// [Waiter] is a caller of such a stack.
package layers

import "github.com/limitctl/limitctl/pkg/limiter/store"

// Shared is a store whose limiters share what they read of it and write to it in the background. Closing one of them leaves these
// parts open.
type Shared struct {
	store.Store
	Watch   *OverrideWatch
	Denials *DenialCollector
}

// Unwrap returns the store inside.
func (s *Shared) Unwrap() store.Store { return s.Store }

// Layers are the layers to put around a store. Each can be nil.
type Layers struct {
	// Observer sees every decision as the caller gets it.
	Observer func(store.Store) store.Store
	// Around is a wrapper of the application.
	Around func(store.Store) store.Store
	// DenialLog is [WithDenialLog] or [DenialCollector.Wrap].
	DenialLog func(store.Store) store.Store
	// Overrides is [WithOverrides] or [OverrideWatch.Wrap].
	Overrides func(store.Store) store.Store
	// DenialMemory is [DenialMemory.Wrap].
	DenialMemory func(store.Store) store.Store
	// Failure is [WithFailure].
	Failure func(store.Store) store.Store
	// Leases is [WithLeases].
	Leases func(store.Store) store.Store
	// Breaker is [WithBreaker].
	Breaker func(store.Store) store.Store
	// StoreObserver sees every call of the store.
	StoreObserver func(store.Store) store.Store
	// Budget is [store.WithBudget].
	Budget func(store.Store) store.Store
}

// Stack puts layers around backend in the right order. From the outside in:
//
//   - the observer and the application's own wrapper see what the caller sees;
//   - the denial log counts all denials of the layers below, including blocks;
//   - overrides apply to what a failure policy decides while the store is away, and to what a denial
//     memory remembers;
//   - the failure policy decides when the leases, the breaker or the store fail;
//   - the breaker judges the store by what it does within its budget.
//
// The result gives access to the keys of backend, as with [store.Wrap].
func Stack(backend store.Store, with Layers) store.Store {
	for _, layer := range [...]func(store.Store) store.Store{
		with.Budget, with.StoreObserver, with.Breaker, with.Leases, with.Failure,
		with.DenialMemory, with.Overrides, with.DenialLog, with.Around, with.Observer,
	} {
		if layer != nil {
			if wrapped := layer(backend); wrapped != backend {
				backend = store.Wrap(wrapped, backend)
			}
		}
	}
	return backend
}
