package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denialKey returns the key of the denials of a step. A minute has the hash tag of its ten minutes, so that one script
// writes both, and in a Cluster the next ten minutes are elsewhere.
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

// AddCounts implements [admin.SideTable] in one script call, after it has asked for the time, which the keys follow
// from.
func (s side) AddCounts(ctx context.Context, d *admin.Denials) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	now, err := s.denialTime(ctx)
	if err != nil {
		return err
	}
	left := time.Duration(0) // until a key ends, by the server's clock
	if s.lanes.Clock != nil {
		left = time.Since(now.Time())
	}
	var keys []string
	var arguments []any
	for _, steps := range []admin.DenialSteps{admin.FineSteps, admin.CoarseSteps} {
		number := steps.At(now)
		keys = append(keys, s.denialKey(steps, number))
		arguments = append(arguments, steps.End(number).Time().Add(left).UnixMilli())
	}
	cmd, err := s.lanes.Run(ctx, true, lua.AddDenials, keys, append(arguments, denialFields(d, now)...))
	if err == nil {
		err = cmd.Err()
	}
	if err != nil {
		return s.lanes.Explain(err, "write of denials", true, keys)
	}
	return nil
}

// denialFields returns the fields of d and their values.
func denialFields(d *admin.Denials, now store.Instant) []any {
	lost := int64(0)
	if d.Lost {
		lost = 1
	}
	fields := append(make([]any, 0, 2+2*len(d.Rows)), "", packDenials("", "", d.Total(), lost, 0, 0, 0, 0))
	for _, row := range d.Rows {
		row = row.ByClock(d.Now, now)
		fields = append(fields, row.Key.Subject+"\x00"+row.Key.Name, packDenials(row.LimitText(), row.Override,
			row.Count, int64(row.LastAt)/1000, int64(row.Since)/1000, row.Blocked, row.Compared, row.Allowed))
	}
	return fields
}

// packDenials packs the value of a field: six numbers of six bytes, the limit, a NUL and the ID of an override.
func packDenials(limit, override string, numbers ...int64) string {
	packed := ""
	for _, n := range numbers {
		packed += sixBytes(n)
	}
	return packed + limit + "\x00" + override
}

// unpackDenials is the reverse of packDenials.
func unpackDenials(packed string) (numbers [6]int64, limit, override string, ok bool) {
	if len(packed) <= 36 {
		return numbers, "", "", false
	}
	for i := range numbers {
		numbers[i] = readSix(packed[6*i:])
	}
	limit, override, ok = strings.Cut(packed[36:], "\x00")
	return numbers, limit, override, ok
}

// denialTime returns the instant that counts, by a server's clock unless the store has another one. In a Cluster it is
// that of the master with the current ten minutes.
func (s side) denialTime(ctx context.Context) (store.Instant, error) {
	now := store.InstantOf(time.Now())
	if s.lanes.Clock != nil {
		return store.InstantOf(s.lanes.Clock()), nil
	}
	const reading = "read of the clock"
	key := s.denialKey(admin.CoarseSteps, admin.CoarseSteps.At(now))
	cmd, err := s.lanes.Read(ctx, key, "time")
	if err != nil {
		return 0, s.lanes.Explain(err, reading, false, []string{key})
	}
	parts, _ := cmd.Val().([]any)
	if len(parts) != 2 {
		return 0, s.lanes.Refuse(reading, false)
	}
	seconds, err := strconv.ParseInt(lanes.Text(parts[0]), 10, 64)
	micros, err2 := strconv.ParseInt(lanes.Text(parts[1]), 10, 64)
	now = store.Instant(seconds*1e6 + micros)
	if err != nil || err2 != nil || now < lanes.LongAgo || now > store.MaxInstant {
		return 0, s.lanes.Refuse(reading, false)
	}
	return now, nil
}

// rowsAtOnce is how many rows are read at a time. A minute of the longest rows is 2 MB.
const rowsAtOnce = admin.DenialsKept

// Counts implements [admin.SideTable]. It reads up to 61 minutes, or 145 times ten minutes, each a key.
func (s side) Counts(ctx context.Context, last time.Duration, add func(store.Instant, int64, *admin.Tally)) (
	store.Instant, error) {
	if err := s.lanes.Check(); err != nil {
		return 0, err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	now := store.InstantOf(time.Now()) // if the master that is asked is away
	masters := denialMasters{side: s}
	err = masters.ask(ctx, denialTag(admin.CoarseSteps, admin.CoarseSteps.At(now)), func(ctx context.Context) error {
		at, err := s.denialTime(ctx)
		now = cmp.Or(at, now)
		return err
	})
	if err != nil {
		return 0, err
	}
	steps, from, to := admin.StepsTouched(now, last)
	atOnce := int64(rowsAtOnce / steps.Kept)
	for first := from; first <= to; first += atOnce {
		read := make([]*admin.Tally, min(atOnce, to-first+1))
		errs := make([]error, len(read))
		var reading panics.Group
		for i := range read {
			reading.Go(func() {
				number := first + int64(i)
				errs[i] = masters.ask(ctx, denialTag(steps, number), func(ctx context.Context) (err error) {
					read[i], err = s.readTally(ctx, s.denialKey(steps, number))
					return err
				})
			})
		}
		if err := reading.Wait(); err != nil {
			return 0, s.lanes.Explain(lanes.MaybeSent(err), readingDenials, false, nil)
		}
		for i := range read {
			if errs[i] != nil {
				return 0, errs[i]
			}
			if read[i] != nil {
				add(now, first+int64(i), read[i])
			}
		}
	}
	return now, masters.err()
}

// denialMasters are the masters of a Cluster that were asked for denials. It waits once for one that is away, and not
// for all the time that there is.
type denialMasters struct {
	side
	away sync.Map // the error of one by its address
}

// ask asks the master that has the steps with a hash tag. That a master of several is away is an error of err only.
func (m *denialMasters) ask(ctx context.Context, tag string, question func(ctx context.Context) error) error {
	shard := m.lanes.ShardOf(tag)
	if shard == "" {
		return question(ctx)
	}
	if _, away := m.away.Load(shard); away {
		return nil
	}
	inTime := ctx
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		inTime, cancel = store.BudgetContext(ctx, time.Until(deadline)/4)
		defer cancel()
	}
	err := question(inTime)
	if store.IsAway(err) && ctx.Err() == nil {
		m.away.Store(shard, err)
		return nil
	}
	return err
}

// err is an [admin.IncompleteError] for each master that is away, nil for none.
func (m *denialMasters) err() (err error) {
	for shard, why := range m.away.Range {
		err = errors.Join(err, &admin.IncompleteError{Shard: shard.(string), Err: why.(error)})
	}
	return err
}

const readingDenials = "read of denials"

// readTally reads a step, whose denials have a key.
func (s side) readTally(ctx context.Context, key string) (*admin.Tally, error) {
	t, total, known := admin.NewTally(), int64(0), int64(0)
	err := s.readHash(ctx, key, func(name, value string) bool {
		numbers, limit, override, sound := unpackDenials(value)
		if name == "" {
			total, t.Lost = numbers[0], numbers[1] != 0
			return sound
		}
		row := admin.Denied{Count: numbers[0], LastAt: store.Instant(numbers[1] * 1000),
			Since:   store.Instant(numbers[2] * 1000),
			Blocked: numbers[3], Compared: numbers[4], Allowed: numbers[5], Override: override}
		row.Limit, _ = store.ParseLimit(limit) // one of a newer limitctl is not known
		row.Key.Subject, row.Key.Name, _ = strings.Cut(name, "\x00")
		known += row.Count
		t.Rows[row.Key] = row
		return sound && row.IsSound()
	})
	if err == nil && total < known {
		err = foreign(key)
	}
	if err != nil {
		return nil, err
	}
	t.Others = total - known
	return t, nil
}

// readHash calls add with each field of a hash and its value, until that says that one is not sound, which is a
// [store.ErrForeign].
func (s side) readHash(ctx context.Context, key string, add func(field, value string) (sound bool)) error {
	cmd, err := s.lanes.Read(ctx, key, "hgetall", key)
	if err != nil {
		return s.explain(err, readingDenials, false, key)
	}
	fields, isArray := cmd.Val().([]any)
	if byName, isMap := cmd.Val().(map[any]any); isMap { // RESP3
		for field, value := range byName {
			fields = append(fields, field, value)
		}
	} else if !isArray {
		return s.lanes.Refuse(readingDenials, false)
	}
	for ; len(fields) > 1; fields = fields[2:] {
		if !add(lanes.Text(fields[0]), lanes.Text(fields[1])) {
			return foreign(key)
		}
	}
	return nil
}
