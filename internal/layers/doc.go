// Package layers is what stands around a store: what limiter.New makes of its options. Each layer is a Store that
// wraps another one, and [Stack] puts them in their one order:
//
//	WithObserver      sees what callers see
//	limiter.Around    a wrapper of the user's own
//	WithDenialLog     counts who is denied
//	WithOverrides     applies what operators say for a while
//	WithDenialMemory  repeats denials without a round trip
//	WithFailure       decides while the store is away
//	WithLeases        takes units of busy keys ahead
//	WithBreaker       stops asking a store that is away, or the part of it that is ([store.Parted])
//	WithObserver      sees what reaches the store
//	store.WithBudget  bounds the time of a call
//
// [Limiter] and [Waiter] ask one request at a time of such a stack.
package layers
