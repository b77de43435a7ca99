package store

// Layers are wrappers to put around a store. Each is nil if there is none.
type Layers struct {
	// Observer sees every decision as the caller gets it.
	Observer func(Store) Store
	// Around is a wrapper of the application's own.
	Around func(Store) Store
	// DenialLog is [WithDenialLog] or [DenialCollector.Wrap].
	DenialLog func(Store) Store
	// Overrides is [WithOverrides] or [OverrideWatch.Wrap].
	Overrides func(Store) Store
	// DenialMemory is [WithDenialMemory].
	DenialMemory func(Store) Store
	// Failure is [WithFailure].
	Failure func(Store) Store
	// Leases is [WithLeases].
	Leases func(Store) Store
	// Breaker is [WithBreaker].
	Breaker func(Store) Store
	// StoreObserver sees every call of the store.
	StoreObserver func(Store) Store
	// Budget is [WithBudget].
	Budget func(Store) Store
}

// Stack puts layers around store in the one right order, whatever order they are given in. From
// the outside:
//
//   - the observer and the application's own wrapper see what the caller sees;
//   - the denial log counts whom anything below denies, a block included;
//   - overrides apply to what a failure policy decides while the store is away, and to what a denial
//     memory remembers;
//   - the failure policy decides when the leases, the breaker or the store fail;
//   - the breaker judges the store by what it does within its budget.
//
// The keys of store can be reached through the result, as with [Wrap].
func Stack(store Store, with Layers) Store {
	for _, layer := range [...]func(Store) Store{
		with.Budget, with.StoreObserver, with.Breaker, with.Leases, with.Failure,
		with.DenialMemory, with.Overrides, with.DenialLog, with.Around, with.Observer,
	} {
		if layer != nil {
			if wrapped := layer(store); wrapped != store {
				store = Wrap(wrapped, store)
			}
		}
	}
	return store
}
