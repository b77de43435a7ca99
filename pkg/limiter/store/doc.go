// Package store limits rates: it decides whether somebody may do something now, and
// counts what they did.
//
// A [Limit] says how much is allowed: a count in a period, and by which [Algorithm] that
// is counted. A [Key] says who is limited by which limit: its Subject is who ("user:42"),
// its Name which of the subject's limits, made from algorithm and period if it is left
// empty. What is used is kept under the key. A [Decision] is the answer: allowed or not,
// how much is left, and when to come back.
//
//	limits := store.New(memorystore.New())
//	d, err := limits.Take(ctx, store.Key{Subject: "user:42"}, store.Limit{Count: 10, Period: time.Minute}, 1)
//	switch {
//	case err != nil: // the store is away or refused; nothing was decided
//	case !d.Allowed: // come back in d.RetryAfter
//	}
//
// # Where usage is kept
//
// A [Store] keeps usage and decides against it, by its own clock. Choose one:
//
//   - package memorystore: this process alone; the fastest.
//   - package filestore: the processes of one machine share a file.
//   - package redisstore: many machines share a Redis, by itself, behind Sentinels or as
//     a Cluster. Each decision is one atomic script call, in a Cluster one for each slot.
//
// All of them give the same answers under a limit that each can keep ([Limit.CheckStored]), and all are
// a [Keyspace]: their keys can be listed, deleted and brought back.
//
// # Wrappers
//
// What wraps a Store is a Store again, so that wrappers can be put around each other. From
// outside in, the order is:
//
//	WithObserver      sees what callers see
//	WithDenialLog     counts who is denied
//	WithOverrides     applies what operators say for a while
//	WithDenialMemory  repeats denials without a round trip
//	WithFailure       decides while the store is away
//	WithLeases        takes units of hot keys ahead
//	WithBreaker       stops asking a store that is away, or the part of it that is ([Parted])
//	WithBudget        bounds the time of a call; redisstore has a budget by itself
//	the store
//
// Each is optional. The example of the package has all but the budget, and [Stack] puts them in this order. Closing the outermost closes
// all of them and the store. Write your own as a struct that embeds a Store and has its own
// Decide, and return it through [KeepKeyspace], so that the keys of the store can be reached
// through it. The example of Store is such a wrapper.
//
// # Seeing what it does
//
// [WithObserver] tells functions of the service's own, such as counters and logs, of every
// call. [WithDenialLog] counts who is denied in the store, where `limitctl denials` shows it.
//
// # What operators say
//
// An [Override] is another limit, a block or an exemption for some keys and some time, set by an
// operator with `limitctl override`, `limitctl block` or `limitctl exempt`. It is kept in the
// store. A service that decides through [WithOverrides] applies it within about a second, unless
// the store is away, and without a deploy:
//
//	limits := store.New(store.WithOverrides(backend, store.Overrides{}))
//
// # Several limits at once
//
// [Limiter.TakeAll] charges several limits together, or none of them. [AllAllowed] tells
// whether the call took effect, and [Summarize] adds what to tell the caller. Package
// policy makes such requests from the attributes of a request: ten a minute for an
// address, five a minute for an e-mail address.
//
// # What an error means
//
// A denial is a [Decision] and no error, except of [Limiter.Wait], which returns it as a
// [DeniedError]. After any other error nothing was decided:
//
//   - [ErrInvalid]: the request is wrong. Correct the program or its configuration.
//     [ErrNeverFits] is one: the cost is more than the limit ever allows at once.
//   - [ErrUnavailable]: the store is away, and nothing was charged.
//   - [ErrOutcomeUnknown]: the store is away, and may have charged. Trying again can
//     charge twice, unless the request has a Token.
//   - [ErrGaveUp]: the caller's context ended. Nothing was charged, unless it is an
//     [ErrOutcomeUnknown], too.
//   - [ErrRefused]: the store answered and refused: a wrong password, a missing right, no
//     memory left. Nothing was charged.
//   - [ErrForeign]: something else is stored under the key. It was left as it is.
//   - [ErrUnknownToken]: nothing is remembered under the token of a settlement. Nothing was changed.
//   - [ErrNotGivenBack]: a caller left while it waited, and what was charged for its turn stays charged.
//
// [IsAway] is true for [ErrUnavailable] and [ErrOutcomeUnknown]. A service decides beforehand whether it
// goes on without an answer then; [WithFailure] does so for its takes and peeks.
package store
