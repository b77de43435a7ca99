package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

const (
	keysPerScan = 1000 // that the server looks at in one go, well under a millisecond
	keysPerRead = 250  // so that others get their turn
	examples    = 3
	recordHead  = 512 // bytes that hold every record whole but a large log's
)

// keyFacts is what a look at the keys found, in a size that does not grow with
// their number.
type keyFacts struct {
	prefix           string
	layout           limiter.Layout
	looked, total    int64 // keys of the store, be they ours or not
	counted          bool  // whether total could be had
	complete         bool
	limits, bytes    int64
	noSize           error // why bytes could not be had
	noTTL, foreign   sample
	perPolicy        map[string]int64
	biggest, hottest ranking
	byFrequency      bool  // that is how hot a key is, and else how idle
	noHeat           error // why that could not be had
}

// sample counts, and has the first few.
type sample struct {
	count    int64
	examples []string
}

func (s *sample) add(text string) {
	if s.count++; len(s.examples) < examples {
		s.examples = append(s.examples, text)
	}
}

// ranked is a key and what ranks it.
type ranked struct {
	storeKey string
	value    int64 // bytes, a frequency, or seconds of idleness, negated
	share    float64
}

// ranking has the few greatest.
type ranking []ranked

func (r *ranking) add(k ranked) {
	greater := func(a, b ranked) int { return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(b.share, a.share)) }
	at, _ := slices.BinarySearchFunc(*r, k, greater)
	if at >= examples {
		return
	}
	*r = slices.Insert(*r, at, k)
	if len(*r) > examples {
		*r = (*r)[:examples]
	}
}

// keys looks at the keys of every master, one after the other, up to the limit.
func (e *examination) keys(ctx context.Context, servers []*server) error {
	facts := keyFacts{prefix: e.Prefix, layout: limiter.OwnLayout(e.Prefix), complete: true, counted: true, perPolicy: map[string]int64{},
		byFrequency: strings.HasSuffix(servers[0].before["maxmemory_policy"], "-lfu")}
	for i, s := range servers {
		limit := -1
		if e.ScanLimit > 0 { // what one leaves over is the others'
			limit = max(1, (e.ScanLimit-int(facts.looked))/(len(servers)-i))
		}
		err := e.scan(ctx, s, &facts, limit)
		if denied := (*deniedError)(nil); errors.As(err, &denied) {
			e.cannotLook(s, "keys", denied.command, err)
			return nil
		}
		if isAnswer(err) {
			e.cannotLook(s, "keys", "scan", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	e.report.add(judgeKeys(&facts)...)
	if facts.noHeat != nil {
		e.cannotLook(nil, "hottest", "object|"+facts.heatQuestion(), facts.noHeat)
	}
	if facts.noSize != nil {
		e.cannotLook(nil, "size", "memory|usage", facts.noSize)
	}
	return nil
}

// deniedError is the answer to a command that the user may not run.
type deniedError struct {
	command string
	error
}

func (e *deniedError) Unwrap() error { return e.error }

func (e *examination) scan(ctx context.Context, s *server, facts *keyFacts, limit int) error {
	walk, err := redisstore.NewWalk(ctx, s.client)
	if err != nil {
		return err
	}
	total, counted := walk.Total()
	facts.counted = facts.counted && counted
	facts.total += total
	count := keysPerScan
	if e.KeysPerSecond > 0 {
		count = min(count, max(1, e.KeysPerSecond/10))
	}
	looked := 0
	for {
		if limit > 0 {
			count = min(count, limit-looked)
		}
		if err := e.pace(ctx, count); err != nil {
			return err
		}
		storeKeys, next, err := s.client.Scan(ctx, walk.Cursor(), limiter.EscapeGlob(e.Prefix)+":*", int64(count)).Result()
		if err != nil {
			return err
		}
		ended, err := walk.Answered(ctx, count, len(storeKeys), next)
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(storeKeys, keysPerRead) {
			if err := facts.read(ctx, s.client, batch); err != nil {
				return err
			}
		}
		looked += max(count, len(storeKeys)) // a server can give more than it was asked for
		if ended {
			if counted {
				looked = int(total) // the last page is not full
			}
			break
		}
		if limit > 0 && looked >= limit {
			facts.complete = false
			break
		}
	}
	facts.looked += int64(looked)
	return nil
}

// pace waits so that no more than that many keys a second are looked at.
func (e *examination) pace(ctx context.Context, count int) error {
	if e.KeysPerSecond == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(count) * time.Second / time.Duration(e.KeysPerSecond)):
		return nil
	}
}

// read asks about keys, in one round trip. How idle a key is has to be asked first:
// to the server, reading a key is using it.
func (f *keyFacts) read(ctx context.Context, client *redis.Client, storeKeys []string) error {
	pipe := client.Pipeline()
	now := pipe.Time(ctx)
	heat, sizes := make([]*redis.Cmd, len(storeKeys)), make([]*redis.IntCmd, len(storeKeys))
	ttls, values := make([]*redis.DurationCmd, len(storeKeys)), make([]*redis.StringCmd, len(storeKeys))
	for i, key := range storeKeys {
		heat[i] = pipe.Do(ctx, "object", f.heatQuestion(), key)
		sizes[i] = pipe.MemoryUsage(ctx, key)
		ttls[i] = pipe.PTTL(ctx, key)
		values[i] = pipe.GetRange(ctx, key, 0, recordHead-1)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isAnswer(err) {
		return err
	}
	for i, storeKey := range storeKeys {
		for command, err := range map[string]error{"pttl": ttls[i].Err(), "getrange": values[i].Err()} {
			if lacksRight(err) {
				return &deniedError{command, err}
			}
		}
		if ttls[i].Val() == -2 { // it expired since the scan
			continue
		}
		if values[i].Err() != nil && !strings.HasPrefix(values[i].Err().Error(), "WRONGTYPE") {
			continue // its slot has moved away
		}
		value, _ := values[i].Bytes()
		held := limiter.Value{StoreKey: storeKey, Type: limiter.StringValue, Text: value, Length: int64(len(value)), TTL: ttls[i].Val()}
		if len(value) == recordHead {
			held.Length = int64(limiter.MaxRecordSize) // at most
		}
		share, ours := f.classify(&held, values[i].Err(), limiter.InstantOf(now.Val()))
		if size, err := sizes[i].Result(); err == nil {
			f.biggest.add(ranked{storeKey: storeKey, value: size})
			if ours {
				f.bytes += size
			}
		} else if !errors.Is(err, redis.Nil) {
			f.noSize = err
		}
		if !ours {
			continue
		}
		f.limits++
		if ttls[i].Val() == -1 {
			f.noTTL.add(storeKey)
		}
		if n, err := heat[i].Int64(); err != nil {
			if !errors.Is(err, redis.Nil) {
				f.noHeat = err
			}
		} else if f.byFrequency {
			f.hottest.add(ranked{storeKey, n, share})
		} else {
			f.hottest.add(ranked{storeKey, -n, share})
		}
	}
	return nil
}

// heatQuestion is what OBJECT is asked: a server counts uses under an LFU policy
// only, and idleness under any other.
func (f *keyFacts) heatQuestion() string {
	if f.byFrequency {
		return "freq"
	}
	return "idletime"
}

// classify counts a key as a limit, of its policy, or as foreign. err is the answer to
// reading it. share is how much of the limit is used, as far as the value tells.
func (f *keyFacts) classify(held *limiter.Value, err error, now limiter.Instant) (share float64, ours bool) {
	key, matched := f.layout.Match(held.StoreKey)
	if !matched {
		f.foreign.add(held.StoreKey + " (no limit's key)")
		return 0, false
	}
	if err != nil {
		f.foreign.add(held.StoreKey + " (not a string)")
		return 0, false
	}
	entries, err := f.layout.Decode(nil, &limiter.Found{Key: key, Values: []limiter.Value{*held}, Now: now})
	if err != nil {
		f.foreign.add(held.StoreKey + " (" + err.Error() + ")")
		return 0, false
	}
	for i := range entries {
		f.perPolicy[groupOf(&entries[i])]++
		of, _ := entries[i].Share()
		share = max(share, of)
	}
	return share, true
}

// groupOf names what limits are counted under: "api/user" of a policy, or the
// algorithm and period of one without.
func groupOf(e *limiter.Entry) string {
	if parts, ok := policy.ParseKey(e.Key); ok {
		return parts.Policy + "/" + parts.Limit
	}
	if !e.LimitKnown() {
		return e.LimitText()
	}
	return e.Limit.DefaultName()
}
