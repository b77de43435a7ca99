// Package store is for authors of stores and of tools that work with keys. Services decide with package limiter.
//
// A [Store] keeps what is used under a [Key], which is a subject and the name of one of its limits, and decides a
// [Request] by its [Limit]. A [Decision] is the answer. A store of the two methods Decide and Close is enough;
// package storetest tests it by the laws. [NormalizeAll] checks requests, and [Decide] and [DecideSpecial] are the
// rules of all algorithms on a [State], which an embedded store reads before and writes after.
//
// # Keys
//
// A store whose keys can be listed, deleted and brought back is a [admin.Keyspace]. It can also keep what
// operators set ([admin.OverrideTable]), who is denied ([admin.DenialTable]), what was changed ([admin.Journal]), and an
// [admin.Identity]. OverrideTableOf, DenialTableOf, JournalOf and IdentityOf find these through wrappers.
//
// # Wrappers
//
// What wraps a Store is a Store again. limiter.New puts the wrappers of this package in their one order, which
// is that of [layers.Stack]:
//
//	WithObserver      sees what callers see
//	WithDenialLog     counts who is denied
//	WithOverrides     applies what operators say for a while
//	WithDenialMemory  repeats denials without a round trip
//	WithFailure       decides while the store is away
//	WithLeases        takes units of busy keys ahead
//	WithBreaker       stops asking a store that is away, or the part of it that is ([layers.Parted])
//	WithBudget        bounds the time of a call; redisstore has a budget by itself
//	the store
//
// A wrapper of your own is a struct that embeds a Store and has its own Decide. Return it through
// [Wrap], so that the keys of the store can be reached through it.
//
// # Errors
//
// A denial is a [Decision] and no error. After an error nothing was decided: [ErrInvalid] (and
// [ErrNeverFits]), [ErrUnavailable], [ErrOutcomeUnknown], [ErrGaveUp], [ErrRefused], [ErrForeign],
// [ErrUnknownToken], [layers.ErrNotGivenBack] and [ErrClosed] say what that means. [IsAway] is true for the second and the third.
package store
