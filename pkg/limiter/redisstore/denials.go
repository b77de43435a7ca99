package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// minuteTries is how often a write looks for the minute that the server is in. The
	// second one knows it, unless a minute ends just then.
	minuteTries = 3
	// rowsAtOnce is how many rows are read at a time. A minute of the longest rows is 2 MB, in the answer and as it is
	// held here; one that is not a minute can be as large as any answer.
	rowsAtOnce = admin.DenialsKept

	// clockMasters is how many steps are tried for one whose master tells its clock, and
	// awayShare of the time that is left is what one master gets.
	clockMasters = 8
	awayShare    = 4
	minuteMS     = int64(time.Minute / time.Millisecond)
)

// denialKeys returns the keys of the denials of a minute, and of the ten minutes that it is in, and those of what overrides let
// through in both. They have one hash tag, so that one script writes all, and in a Cluster the next ten minutes are elsewhere.
func (s side) denialKeys(minute int64) []string {
	fine := s.denialKey(admin.FineSteps, minute)
	coarse := s.denialKey(admin.CoarseSteps, minute*minuteMS/admin.CoarseSteps.Length.Milliseconds())
	return []string{fine, coarse, letThroughKey(fine), letThroughKey(coarse)}
}

// letThroughKey returns the key of what overrides let through in the step whose denials have a key.
func letThroughKey(denials string) string { return denials + ":overrides" }

// denialKey returns the key of the denials of a step.
func (s side) denialKey(steps admin.DenialSteps, number int64) string {
	key := fmt.Sprintf("%s!{%s}", s.lanes.Own, denialTag(steps, number))
	if steps == admin.FineSteps {
		key += fmt.Sprintf(":%d", number)
	}
	return key
}

func denialTag(steps admin.DenialSteps, number int64) string {
	return fmt.Sprintf("denials:%d", number*int64(steps.Length)/int64(admin.CoarseSteps.Length))
}

// AddCounts implements [admin.SideTable] in one script call. The minute is that of the server's clock, which the key has to be
// known before: it is guessed, and the server says so if it is another.
func (s side) AddCounts(ctx context.Context, d *admin.Denials) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	clock := any("")
	for range minuteTries {
		now := time.Now().UnixMilli() + s.lanes.Ahead.Load()
		if s.lanes.Clock != nil {
			now = s.lanes.Clock().UnixMilli()
			clock = now
		}
		minute := now / minuteMS
		keys := s.denialKeys(minute)
		cmd, err := s.lanes.Run(ctx, true, lua.AddDenials, keys, denialArguments(minute, clock, d))
		if err != nil {
			return s.lanes.Explain(err, "write of denials", true, keys)
		}
		at, err := cmd.Int64()
		if err != nil || at == 0 {
			return s.lanes.Refuse("write of denials", true)
		}
		s.lanes.Ahead.Store(max(at, -at) - time.Now().UnixMilli())
		if at > 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: the clocks of the servers differ by more than a minute", store.ErrRefused)
}

// denialArguments packs the ARGV of lua/denials.lua.
func denialArguments(minute int64, clock any, d *admin.Denials) []any {
	lost := int64(0)
	if d.Lost {
		lost = 1
	}
	arguments := append(make([]any, 0, 7+2*len(d.Rows)+2*len(d.LetThrough)), minute, clock, 0)
	if total := d.Total(); total > 0 || d.Lost {
		arguments[2] = 1 + len(d.Rows)
		arguments = append(arguments, "", packDenials("", "", total, lost, 0, 0, 0, 0))
	}
	for _, row := range d.Rows {
		row = row.ByClock(d.Now, 0)
		arguments = append(arguments, row.Key.Subject+"\x00"+row.Key.Name,
			packDenials(row.LimitText(), row.Override, row.Count, -int64(row.LastAt)/1000, -int64(row.Since)/1000, row.Blocked,
				row.Compared, row.Allowed))
	}
	if len(d.LetThrough) == 0 {
		return arguments
	}
	sum := len(arguments) + 1
	arguments = append(arguments, "", int64(0))
	for _, l := range d.LetThrough {
		arguments = append(arguments, l.Override, l.Count)
		arguments[sum] = arguments[sum].(int64) + l.Count
	}
	return arguments
}

// denialNumbers is how many numbers of six bytes a value begins with, and denialHead how many bytes.
const (
	denialNumbers = 6
	denialHead    = denialNumbers * 6
)

// packDenials packs the value of a field.
func packDenials(limit, override string, numbers ...int64) []byte {
	packed := make([]byte, 0, denialHead+len(limit)+1+len(override))
	for _, n := range numbers {
		packed = appendSix(packed, uint64(n))
	}
	return append(packed, limit+"\x00"+override...)
}

// unpackDenials is the reverse of packDenials.
func unpackDenials(packed string) (numbers [denialNumbers]int64, limit, override string, ok bool) {
	if len(packed) <= denialHead {
		return numbers, "", "", false
	}
	for i := range numbers {
		numbers[i] = six(packed[6*i : 6*i+6])
	}
	limit, override, ok = strings.Cut(packed[denialHead:], "\x00")
	return numbers, limit, override, ok
}

// Counts implements [admin.SideTable]. It reads up to 61 minutes, or 145 times ten minutes, two keys each.
func (s side) Counts(ctx context.Context, last time.Duration, add func(store.Instant, int64, *admin.Denials)) (store.Instant, error) {
	if err := s.lanes.Check(); err != nil {
		return 0, err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	away := &awayMasters{store: s}
	now, err := s.denialClock(ctx, away)
	if err != nil {
		return 0, err
	}
	steps := admin.StepsOf(last)
	from, to := steps.Touched(now, last)
	atOnce := int64(rowsAtOnce / steps.Kept)
	for first := from; first <= to; first += atOnce {
		read := make([]admin.Denials, min(atOnce, to-first+1))
		errs := make([]error, 2*len(read))
		var reading panics.Group
		for i := range read {
			number := first + int64(i)
			key, tag := s.denialKey(steps, number), denialTag(steps, number)
			reading.Go(func() {
				errs[2*i] = away.ask(ctx, tag, func(ctx context.Context) error { return s.readDenials(ctx, key, &read[i]) })
			})
			reading.Go(func() {
				errs[2*i+1] = away.ask(ctx, tag, func(ctx context.Context) error {
					return s.readLetThrough(ctx, letThroughKey(key), &read[i])
				})
			})
		}
		if err := reading.Wait(); err != nil {
			return 0, s.lanes.Explain(lanes.MaybeSent(err), readingDenials, false, nil)
		}
		for i := range read {
			if err := cmp.Or(errs[2*i], errs[2*i+1]); err != nil {
				return 0, err
			}
			add(now, first+int64(i), &read[i])
		}
	}
	return now, away.err()
}

// denialClock returns the instant that counts: what a server's clock shows, unless the store
// has another one. In a Cluster it is the clock of the master that has the current ten minutes, or
// those before if that master is away.
func (s side) denialClock(ctx context.Context, away *awayMasters) (now store.Instant, err error) {
	if s.lanes.Clock != nil {
		return store.InstantOf(s.lanes.Clock()), nil
	}
	steps := admin.CoarseSteps
	current := (time.Now().UnixMilli() + s.lanes.Ahead.Load()) / steps.Length.Milliseconds()
	for number := current; number > current-clockMasters && now == 0; number-- {
		err = away.ask(ctx, denialTag(steps, number), func(ctx context.Context) (err error) {
			now, err = s.serverTime(ctx, s.denialKey(steps, number))
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	if now == 0 {
		return 0, away.err()
	}
	return now, nil
}

// serverTime asks the server that has a key for its clock.
func (s side) serverTime(ctx context.Context, key string) (store.Instant, error) {
	cmd, err := s.lanes.Read(ctx, key, "time")
	if err != nil {
		return 0, s.lanes.Explain(err, "read of the clock", false, []string{key})
	}
	parts, _ := cmd.Val().([]any)
	if len(parts) != 2 {
		return 0, s.lanes.Refuse("read of the clock", false)
	}
	seconds, err := strconv.ParseInt(lanes.Text(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(lanes.Text(parts[1]), 10, 64)
	now := store.Instant(seconds*1e6 + micros)
	if err != nil || err2 != nil || now < lanes.LongAgo || now > store.MaxInstant {
		return 0, s.lanes.Refuse("read of the clock", false)
	}
	return now, nil
}

// awayMasters knows which masters of a Cluster did not answer while denials were read, so
// that each is waited for once, and not for all the time that there is. Of a store in one
// piece it knows nothing.
type awayMasters struct {
	store side
	mu    sync.Mutex
	errs  map[string]error // by the master's address
}

// ask asks the master that has the steps with a hash tag, unless it is known to be away. That a master of
// several is away is no error here, but one of err.
func (a *awayMasters) ask(ctx context.Context, tag string, question func(ctx context.Context) error) error {
	shard := a.store.lanes.ShardOf(tag)
	a.mu.Lock()
	known := a.errs[shard]
	a.mu.Unlock()
	if known != nil {
		return nil
	}
	inTime := ctx
	if deadline, limited := ctx.Deadline(); shard != "" && limited {
		var cancel context.CancelFunc
		inTime, cancel = store.BudgetContext(ctx, time.Until(deadline)/awayShare)
		defer cancel()
	}
	err := question(inTime)
	if shard == "" || !store.IsAway(err) || ctx.Err() != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.errs == nil {
		a.errs = map[string]error{}
	}
	a.errs[shard] = err
	return nil
}

// err is an [admin.IncompleteError] for each master that is away, nil for none.
func (a *awayMasters) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, part := range slices.Sorted(maps.Keys(a.errs)) {
		errs = append(errs, &admin.IncompleteError{Shard: part, Err: a.errs[part]})
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

const readingDenials = "read of denials"

// readDenials reads the denials of a step. There may be none.
func (s side) readDenials(ctx context.Context, key string, step *admin.Denials) error {
	total, known := int64(0), int64(0)
	err := s.readHash(ctx, key, func(name, value string) bool {
		numbers, limit, override, sound := unpackDenials(value)
		if name == "" {
			total, step.Lost = numbers[0], numbers[1] != 0
			return sound
		}
		row := admin.Denied{Count: numbers[0], LastAt: store.Instant(numbers[1] * 1000), Since: store.Instant(numbers[2] * 1000),
			Blocked: numbers[3], Compared: numbers[4], Allowed: numbers[5], Override: override}
		row.Limit, _ = store.ParseLimit(limit) // one of a newer limitctl is not known
		row.Key.Subject, row.Key.Name, _ = strings.Cut(name, "\x00")
		if sound = sound && row.IsSound(); sound { // a hostile answer has any number of others
			known += row.Count
			step.Rows = append(step.Rows, row)
		}
		return sound
	})
	if err == nil && (total < known || known < 0) {
		return foreign(key)
	}
	step.Others = total - known
	return err
}

// readLetThrough reads what overrides let through in a step.
func (s side) readLetThrough(ctx context.Context, key string, step *admin.Denials) error {
	return s.readHash(ctx, key, func(id, value string) bool {
		count, err := strconv.ParseInt(value, 10, 64)
		l := admin.LetThrough{Override: id, Count: count}
		if id != "" && len(step.LetThrough) < admin.LetThroughKept {
			step.LetThrough = append(step.LetThrough, l)
		}
		return err == nil && (id == "" || l.Check() == nil)
	})
}

// readHash calls add with each field of a hash and its value. It returns a [store.ErrForeign] if add says that one is not sound.
func (s side) readHash(ctx context.Context, key string, add func(field, value string) (sound bool)) error {
	cmd, err := s.lanes.Read(ctx, key, "hgetall", key)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return foreign(key)
	} else if err != nil {
		return s.lanes.Explain(err, readingDenials, false, []string{key})
	}
	sound := true
	switch fields := cmd.Val().(type) {
	case map[any]any: // RESP3
		for field, value := range fields {
			sound = add(lanes.Text(field), lanes.Text(value)) && sound
		}
	case []any:
		for i := 0; i+1 < len(fields); i += 2 {
			sound = add(lanes.Text(fields[i]), lanes.Text(fields[i+1])) && sound
		}
	default:
		return s.lanes.Refuse(readingDenials, false)
	}
	if !sound {
		return foreign(key)
	}
	return nil
}
