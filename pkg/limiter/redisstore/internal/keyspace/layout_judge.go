package keyspace

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// familiesSeen remembers what a scan has found.
type familiesSeen struct {
	// single are store keys that are a limit by themselves, families all those of others: the
	// second one may come at any time after the first.
	single, families *redisserver.Seen
}

func newFamiliesSeen(servers *redisserver.Servers) *familiesSeen {
	return &familiesSeen{servers.NewSeen(), redisserver.NewSeenAll()}
}

// isFirst reports whether what was found has not come before.
func (s *familiesSeen) isFirst(storeKey, principal string, entries []admin.Entry) bool {
	several := principal != storeKey
	for i := range entries {
		several = several || len(entries[i].Record.Members) > 1
	}
	if !several {
		return !s.families.Has(storeKey) && s.single.First(storeKey)
	}
	first := !s.single.Has(principal) && s.families.First(principal)
	for i := range entries {
		for j := range entries[i].Record.Members {
			if part := entries[i].Record.Members[j].StoreKey; part != principal && !s.families.First(part) && i == 0 {
				first = false
			}
		}
	}
	return first
}

// read reads what the looks need, from a server and where else their keys are. If that is much
// it reads them in parts, which it gives one after the other.
func (sc *layoutScan) read(ctx context.Context, server redis.Cmdable, looks []*layouts.Look, give func([]found) error) error {
	found, err := sc.readOnce(ctx, server, looks)
	if errors.Is(err, errMuch) && len(looks) > 1 {
		middle := len(looks) / 2
		if err := sc.read(ctx, server, looks[:middle], give); err != nil {
			return err
		}
		return sc.read(ctx, server, looks[middle:], give)
	}
	if err != nil {
		return err
	}
	clear(looks) // the values that they hold would else stay until the whole batch is read
	return give(found)
}

// readOnce is read in one go. The error is errMuch if that is too much for several looks.
func (sc *layoutScan) readOnce(ctx context.Context, server redis.Cmdable, looks []*layouts.Look) ([]found, error) {
	now, err := sc.about(ctx, server)
	if err != nil {
		return nil, err
	}
	r := &reader{keys: sc.keys, dumps: sc.query.Records, sizes: sc.query.Bytes, hashes: sc.hashes.Load(),
		server: server, values: map[string]*heldValue{}, now: now, lose: sc.loseMaster, isLost: sc.hasLost,
		several: len(looks) > 1, stride: sc.stride(server)}
	looks = sc.notYet(looks)
	// Which keys belong together can depend on the time, and that is known when they are read.
	const turns = 3
	for range turns {
		var storeKeys []string
		for _, look := range looks {
			storeKeys = append(storeKeys, look.StoreKeys(r.instant(r.at(look.StoreKey)))...)
		}
		if added, err := r.addNew(ctx, storeKeys); err != nil {
			return nil, err
		} else if !added {
			break
		}
	}
	sc.learn(server, r)
	sc.mu.Lock()
	defer sc.mu.Unlock()
	all := make([]found, 0, len(looks))
	for _, look := range looks {
		entries, err := sc.judge(look, r)
		if err != nil {
			all = append(all, found{admin.Entry{StoreKey: look.StoreKey}, err})
			continue
		}
		for i := range entries {
			all = append(all, found{entries[i], nil})
		}
	}
	return all, nil
}

// notYet leaves out looks at store keys that were found together with others before.
func (sc *layoutScan) notYet(looks []*layouts.Look) []*layouts.Look {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	left := make([]*layouts.Look, 0, len(looks))
	for _, look := range looks {
		if !sc.seen.families.Has(look.StoreKey) {
			left = append(left, look)
		}
	}
	return left
}

// about returns about what the clock of a server shows, by what it showed before.
func (sc *layoutScan) about(ctx context.Context, server redis.Cmdable) (time.Time, error) {
	sc.mu.Lock()
	ahead, known := sc.ahead[server]
	sc.mu.Unlock()
	if known {
		return time.Now().Add(ahead), nil
	}
	now, err := server.Time(ctx).Result()
	if err != nil {
		return now, err
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.ahead[server] = time.Until(now)
	return now, nil
}

// learn remembers for the next batch what a server's clock shows, and what its values are.
func (sc *layoutScan) learn(server redis.Cmdable, r *reader) {
	strings, others := 0, 0
	for _, held := range r.values {
		switch held.Type {
		case layouts.StringValue:
			strings++
		case layouts.NoValue:
		default:
			others++
		}
	}
	if strings+others > 0 {
		sc.hashes.Store(others > strings)
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.ahead[server] = time.Until(r.now)
}

// at is when the value of a store key was read, or would be now.
func (r *reader) at(storeKey string) time.Time {
	if held := r.values[storeKey]; held != nil && !held.at.IsZero() {
		return held.at
	}
	return r.now
}

// judge says what the values of a look are.
func (sc *layoutScan) judge(look *layouts.Look, r *reader) ([]admin.Entry, error) {
	tooLarge, lost := (*heldValue)(nil), false
	entries, principal, err := look.Judge(func(storeKey string) layouts.Value {
		held := r.values[storeKey]
		if held == nil { // the clock has turned once more
			return layouts.Value{StoreKey: storeKey, Type: layouts.NoValue}
		}
		lost = lost || held.lost
		if held.tooLarge != "" && tooLarge == nil {
			tooLarge = held
		}
		return held.Value
	})
	if lost {
		return nil, nil // its master is missing
	}
	if unsure := (*layouts.UnsureError)(nil); tooLarge != nil && !errors.As(err, &unsure) && (err != nil || len(entries) > 0) {
		entries, err = nil, &store.ForeignError{StoreKey: tooLarge.StoreKey, Holds: tooLarge.tooLarge}
	}
	if len(entries) == 0 && err == nil || !sc.seen.isFirst(look.StoreKey, principal, entries) {
		return nil, nil
	}
	for i := range entries {
		sc.complete(&entries[i], r.values, len(entries))
	}
	return slices.DeleteFunc(entries, isUnused), err
}

// complete adds what the query asks for besides to one of several entries.
func (sc *layoutScan) complete(e *admin.Entry, values map[string]*heldValue, several int) {
	for i := range e.Record.Members {
		part := &e.Record.Members[i]
		held := values[part.StoreKey]
		part.Expires = held.expires
		e.Bytes += held.bytes / int64(several)
		if sc.query.Records {
			part.Dump = held.kept()
		}
	}
}
