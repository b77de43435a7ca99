// Package store is for authors of stores. Services decide with package limiter, and tools that work with keys
// use package admin besides.
//
// A [Store] keeps what is used under a [Key], which is a subject and the name of one of its limits, and decides a
// [Request] by its [Limit]. A [Decision] is the answer. A store of the two methods Decide and Close is enough;
// package storetest tests it by the laws. [NormalizeAll] checks requests, and [Decide] and [DecideSpecial] are the
// rules of all algorithms on a [State], which an embedded store reads before and writes after.
//
// # More than deciding
//
// A store may have more than the two methods: parts that fail by themselves ([Parted]), and what package admin
// has for operators, such as a keyspace, overrides, denials, a journal and an identity. [As] finds what a store has.
//
// # Wrappers
//
// What wraps a Store is a Store again. A wrapper of your own is a struct that embeds a Store and has its own
// Decide. Return it through [Wrap], so that As finds what the store inside has. The option limiter.Around puts it
// in its place among those that limiter.New makes.
//
// # Errors
//
// A denial is a [Decision] and no error. After an error nothing was decided: [ErrInvalid] (and
// [ErrNeverFits]), [ErrUnavailable], [ErrOutcomeUnknown], [ErrGaveUp], [ErrRefused], [ErrForeign],
// [ErrUnknownToken] and [ErrClosed] say what that means. [IsAway] is true for the second and the third.
package store
