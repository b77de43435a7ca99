// Package layers has the layers around a store, for the options of limiter.New. Each layer is a Store that wraps
// another one, and [Stack] puts them in the right order:
//
//	WithObserver      sees what callers see
//	limiter.Around    a wrapper of the application
//	WithDenialLog     counts who is denied
//	WithOverrides     applies the overrides of operators
//	WithDenialMemory  repeats denials without a round trip
//	WithFailure       decides while the store is away
//	WithLeases        takes units of busy keys in advance
//	WithBreaker       stops calling a store, or a part of it ([store.Parted]), that is away
//	WithObserver      sees what reaches the store
//	store.WithBudget  bounds the time of a call
//
// [Limiter] and [Waiter] are callers of such a stack.
package layers
