// Package keyspace lists the keys of limits in Redis, and deletes and restores them as operators ask for. One pipeline
// does so for limitctl's own limits and for those that other limiters keep: it scans, reads the values, judges what
// they are, and deletes or imports records by scripts that look at each value first. A layout says which keys are its
// own and what they mean.
package keyspace

import (
	"context"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Keyspace is the limits of a layout in the servers of a sender.
type Keyspace struct {
	*lanes.Sender
	layout layout
}

// layout is what differs between limits of limitctl and those of others.
type layout interface {
	// glob is a glob of the store keys of a query. tag is the hash tag that all of them have, if they have the same.
	glob(q *admin.Query) (glob, tag string)
	// choose returns what to look at under a store key that a scan has found.
	choose(storeKey string, q *admin.Query) (c chosen, wanted bool)
	// listed returns what to look at if a query lists its keys.
	listed(q *admin.Query) (all []chosen, isListed bool, err error)
	// read reads and judges some of what was chosen, which a server has. It can give parts of it before the others are
	// read.
	read(ctx context.Context, sc *scan, server redis.Cmdable, some []chosen, give func([]found) error) error
	// members adds the store keys of a record to all, each with its value as the scripts know it.
	members(all []admin.Member, r *admin.Record) ([]admin.Member, error)
	// sound is members of a record that can be imported.
	sound(all []admin.Member, r *admin.Record) ([]admin.Member, error)
	// record is a record with these members instead of its own.
	record(r admin.Record, members []admin.Member) admin.Record
}

// chosen is a store key that a query selects, before it is read.
type chosen struct {
	storeKey string
	key      store.Key
	foreign  bool          // no limit has the key
	look     *layouts.Look // of a layout of another limiter
}

// Own is the limits of limitctl itself.
type Own struct{ *Keyspace }

// New returns the limits of limitctl in the servers of a sender.
func New(sender *lanes.Sender) *Own { return &Own{&Keyspace{sender, own{sender}}} }

// OtherLimiters returns the limits of other limiters in the same servers, as far as sources know them.
func (o *Own) OtherLimiters(sources layouts.Sources) *Keyspace {
	return &Keyspace{o.Sender, &others{o.Sender, sources}}
}

const (
	// keysPerCall is how many keys one script call deletes or writes: few enough that others wait a millisecond or so
	// for it.
	keysPerCall = 200
	// bytesPerExchange is how many bytes of records one exchange with a server carries. A record that is larger goes by
	// itself.
	bytesPerExchange = lua.ExportBytes
	// smallBytes is how large values can be and still come back at any time.
	smallBytes = 64 << 10
)

// span is some records that go in one exchange.
type span struct{ first, end, bytes int }

// spans divides n records into as many as one exchange can carry, at least one each.
func spans(n int, size func(i int) int) iter.Seq[span] {
	return func(yield func(span) bool) {
		for s := (span{}); s.first < n; s = (span{first: s.end, end: s.end}) {
			for ; s.end < n && (s.end == s.first || s.bytes+size(s.end) <= bytesPerExchange); s.end++ {
				s.bytes += size(s.end)
			}
			if !yield(s) {
				return
			}
		}
	}
}

// exchanges calls do with n records, as many at a time as one exchange can carry. Values that have changed come back in
// the answer, which is then about as large as the request. An exchange with large records runs while no other such one
// does. exchanges ends with the first error of do.
func (k *Keyspace) exchanges(ctx context.Context, n int, size func(i int) int, do func(first, end int) error) error {
	for s := range spans(n, size) {
		err := func() error {
			if s.bytes > smallBytes {
				end, err := k.Alone(ctx)
				if err != nil {
					return err
				}
				defer end()
			}
			return do(s.first, s.end)
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// together reports whether one script call can have two store keys.
func (k *Keyspace) together(a, b string) bool {
	return !k.IsCluster() || redisserver.SlotOf(redisserver.HashTag(a)) == redisserver.SlotOf(redisserver.HashTag(b))
}

// eachReported calls do for each key that a script reports. The reply has four elements for each, after its first
// element: the index of the key, what it holds if the script left it, and else the value that it held, and when that
// would have expired. eachReported returns false if the reply is not like that.
func eachReported(reply []any, keys int, do func(i int, holds string, was []byte, until time.Time)) bool {
	if len(reply)%4 != 1 {
		return false
	}
	for n := 1; n < len(reply); n += 4 {
		i := int(lanes.Integer(reply[n])) - 1
		if i < 0 || i >= keys {
			return false
		}
		do(i, lanes.Text(reply[n+1]), []byte(lanes.Text(reply[n+2])), lanes.ExpiryOf(reply[n+3]))
	}
	return true
}

// pick returns those of all that have an index of batch.
func pick[T any](all []T, batch []int) []T {
	some := make([]T, len(batch))
	for n, i := range batch {
		some[n] = all[i]
	}
	return some
}
