// Package limiter limits rates: it decides whether somebody may do something now, and counts what
// they did.
//
// A [Limit] says how much is allowed: a count in a period. A [Request] asks for some of it for one
// subject, such as a user. [Decisions] are the answer.
//
//	limits, err := limiter.New(memorystore.New())
//	...
//	defer limits.Close()
//	perMinute := limiter.Per("api/minute", 10, time.Minute)
//
//	d, err := limits.Take(ctx, perMinute.For("user", id))
//	switch {
//	case err != nil: // nothing was decided
//	case !d.Allowed(): // try again in d.RetryAfter()
//	}
//
// [Limiter.Take] charges several requests together, or none of them. [Limiter.Wait] returns when the caller may go
// on. The default algorithm is a token bucket: in the first period it lets through up to twice the count, which is
// a burst and then the refill. To have at most Count in any period, use a [SlidingLog].
//
// # Where usage is kept
//
// A [Store] keeps usage and decides by its own clock. Make one and close it after the limiter:
//
//   - package memorystore: in this process; the fastest, and the one to test with.
//   - package filestore: in a file that the processes of one machine share.
//   - package redisstore: in a Redis that many machines share: one server, a Cluster, or behind
//     Sentinels. A decision is one atomic script call, in a Cluster one for each slot.
//
// They decide by the same rules. The subject and the name of a limit make the key. Do not use a secret, such as an
// API key, as a subject; package httplimit hashes it.
//
// # Errors and outages
//
// A denial of Take is no error. [Limiter.Wait] and [Limiter.Reserve] return a denial as a [*DeniedError]. After any
// other error, such as [ErrUnavailable], nothing was decided, and Decisions are denied.
//
// While the store is away, calls return an error by default. One option can decide instead: [FailLocal] decides in
// this process by a share of each limit, [FailOpen] allows, [FailClosed] denies. With a [Breaker], callers do not
// each wait for a time-out. No option replaces the error of a store that refuses.
//
//	limits, err := limiter.New(store, limiter.Breaker{}, limiter.FailLocal(0.25), limiter.Overrides{})
//
// Package httplimit limits HTTP requests, policyfile decides by a file that `limitctl` validates, and store is for
// authors of stores and of operators' tools.
package limiter
