package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/internal/denialtable"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.DenialTable = (*Store)(nil)

const (
	// partTries is how often a write looks for the minute or hour that the server is in. The
	// second one knows it, unless a part ends just then.
	partTries = 3
	// partsAtOnce is how many parts are read at a time. A part of the longest rows
	// is 2 MB, in the answer and as it is held here; one that is not a part can be as large
	// as any answer.
	partsAtOnce = 2

	// minuteMasters is how many minutes are tried for one whose master tells its clock, and
	// awayShare of the time that is left is what one master gets.
	minuteMasters = 8
	awayShare     = 4

	// Sizes of what lua/denials.lua packs, and where it has what.
	denialValue, denialDetail = 12, 24
)

// denialPart is a part of the table: a minute or an hour.
type denialPart struct {
	step   denialtable.Step
	number int64
}

// tag returns the hash tag of a part, so that in a Cluster the parts are spread over the masters.
func (p denialPart) tag() string {
	if p.step == denialtable.Minute {
		return fmt.Sprintf("denials:%d", p.number)
	}
	return fmt.Sprintf("denials:hour:%d", p.number)
}

// denialKeys returns the two keys of a part. Older versions know only the first one, and only of minutes.
func (s *Store) denialKeys(part denialPart) []string {
	key := fmt.Sprintf("%s!{%s}", s.lanes.Own, part.tag())
	return []string{key, key + ":more"}
}

// AddDenials implements [admin.DenialTable] in a script call for the minute and one for the hour.
func (s *Store) AddDenials(ctx context.Context, d admin.Denials) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	if err := d.Check(); err != nil {
		return err
	}
	if err := s.addDenials(ctx, denialtable.Minute, &d); err != nil {
		return err
	}
	if err := s.addDenials(ctx, denialtable.Hour, &d); err != nil {
		return fmt.Errorf("%w: the minute has the denials, the hour may not: %w", store.ErrOutcomeUnknown, err)
	}
	return nil
}

// addDenials adds d to the current part of a step. The part is that of the server's clock, which
// the keys have to be known before: it is guessed, and the server says so if it is another.
func (s *Store) addDenials(ctx context.Context, step denialtable.Step, d *admin.Denials) error {
	clock := any("")
	for range partTries {
		now := time.Now().UnixMilli() + s.ahead.Load()
		if s.lanes.Clock != nil {
			now = s.lanes.Clock().UnixMilli()
			clock = now
		}
		part := denialPart{step, step.Number(store.Instant(now * 1000))}
		keys := s.denialKeys(part)
		cmd, err := s.lanes.Run(ctx, true, s.lanes.Scripts.Named(lua.AddDenials), keys, denialArguments(part, clock, d))
		if err != nil {
			return s.lanes.Explain(err, "write of denials", true, keys)
		}
		at, err := cmd.Int64()
		if err != nil || at == 0 {
			return s.lanes.Refuse("write of denials", true)
		}
		s.ahead.Store(max(at, -at) - time.Now().UnixMilli())
		if at > 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: the clocks of the servers differ by more than a minute", store.ErrRefused)
}

// denialArguments packs the ARGV of lua/denials.lua.
func denialArguments(part denialPart, clock any, d *admin.Denials) []any {
	lost := int64(0)
	if d.Lost {
		lost = 1
	}
	packed := appendSix(nil, d.Total(), lost, time.Duration(part.step).Milliseconds(), part.step.Kept().Milliseconds())
	arguments := append(make([]any, 0, 4+2*len(d.Rows)), part.number, clock, nil, "")
	ago := func(at store.Instant) int64 { return int64(max(0, d.Now-at)) / 1000 }
	for _, row := range d.Rows {
		if row.Since == 0 {
			row.Since = row.LastAt
		}
		packed = appendSix(packed, row.Count, ago(row.LastAt), ago(row.Since), row.Blocked, row.Compared, row.Passed)
		arguments = append(arguments, row.Key.Subject+"\x00"+row.Key.Name)
	}
	for _, row := range d.Rows {
		arguments = append(arguments, row.Limit+"\x00"+row.Override)
	}
	arguments[2] = packed
	return arguments
}

// appendSix appends the last six bytes of each number.
func appendSix(buf []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		eight := binary.BigEndian.AppendUint64(nil, uint64(n))
		buf = append(buf, eight[2:]...)
	}
	return buf
}

// six reads the number in the first six bytes of text.
func six(text string) int64 {
	var eight [8]byte
	copy(eight[2:], text[:6])
	return int64(binary.BigEndian.Uint64(eight[:]))
}

// Denials implements [admin.DenialTable]. It reads up to 61 minutes and 26 hours, two keys each.
func (s *Store) Denials(ctx context.Context, last time.Duration) (admin.Denials, error) {
	if err := s.lanes.Check(); err != nil {
		return admin.Denials{}, err
	}
	if err := denialtable.CheckLast(last); err != nil {
		return admin.Denials{}, err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return admin.Denials{}, err
	}
	defer end()
	away := &awayMasters{store: s}
	now, err := s.denialClock(ctx, away)
	if err != nil {
		return admin.Denials{}, err
	}
	denials, err := denialtable.Read(now, last, func(step denialtable.Step, from, to int64, add func(int64, denialtable.Part)) error {
		return s.readParts(ctx, away, step, from, to, add)
	})
	if err != nil {
		return admin.Denials{}, err
	}
	err = away.err()
	denials.Lost = denials.Lost || err != nil
	return denials, err
}

// readParts reads some parts at a time.
func (s *Store) readParts(ctx context.Context, away *awayMasters, step denialtable.Step, from, to int64,
	add func(int64, denialtable.Part)) error {
	for first := from; first <= to; first += partsAtOnce {
		read := make([]denialtable.Part, min(partsAtOnce, to-first+1))
		errs := make([]error, len(read))
		var reading panics.Group
		for i := range read {
			reading.Go(func() {
				part := denialPart{step, first + int64(i)}
				errs[i] = away.ask(ctx, part, func(ctx context.Context) (err error) {
					read[i], err = s.readPart(ctx, part)
					return err
				})
			})
		}
		if err := reading.Wait(); err != nil {
			return s.lanes.Explain(lanes.MaybeSent(err), "read of denials", false, nil)
		}
		for i := range read {
			if errs[i] != nil {
				return errs[i]
			}
			add(first+int64(i), read[i])
		}
	}
	return nil
}

// denialClock returns the instant that counts: what a server's clock shows, unless the store
// has another one. In a Cluster it is the clock of the master that has the current minute, or
// the one before if that master is away.
func (s *Store) denialClock(ctx context.Context, away *awayMasters) (now store.Instant, err error) {
	if s.lanes.Clock != nil {
		return store.InstantOf(s.lanes.Clock()), nil
	}
	current := denialtable.Minute.Number(store.Instant((time.Now().UnixMilli() + s.ahead.Load()) * 1000))
	for minute := current; minute > current-minuteMasters && now == 0; minute-- {
		part := denialPart{denialtable.Minute, minute}
		err = away.ask(ctx, part, func(ctx context.Context) (err error) {
			now, err = s.serverTime(ctx, s.denialKeys(part)[0])
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
func (s *Store) serverTime(ctx context.Context, key string) (store.Instant, error) {
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
	store *Store
	mu    sync.Mutex
	errs  map[string]error // by the master's address
}

// ask asks the master that has a part, unless it is known to be away. That a master of
// several is away is no error here, but one of err.
func (a *awayMasters) ask(ctx context.Context, part denialPart, question func(ctx context.Context) error) error {
	shard := a.store.lanes.ShardOf(part.tag())
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

// readPart reads a part. There may be none.
func (s *Store) readPart(ctx context.Context, part denialPart) (p denialtable.Part, err error) {
	keys := s.denialKeys(part)
	values, err := s.readHash(ctx, keys[0])
	if err != nil || len(values) == 0 {
		return p, err
	}
	details, err := s.readHash(ctx, keys[1])
	if err != nil {
		return p, err
	}
	total, known := int64(0), int64(0)
	for field, packed := range values {
		if len(packed) != denialValue {
			return p, &store.ForeignError{StoreKey: keys[0], Holds: "a hash that is not a table of denials"}
		}
		if field == "" {
			total, p.Lost = six(packed), six(packed[6:]) != 0
			continue
		}
		row, isSound := denialRow(field, packed, details[field])
		if !isSound {
			return p, &store.ForeignError{StoreKey: keys[0], Holds: "a hash that is not a table of denials"}
		}
		known += row.Count
		p.Rows = append(p.Rows, row)
	}
	if total < known || known < 0 {
		return p, &store.ForeignError{StoreKey: keys[0], Holds: "a hash that is not a table of denials"}
	}
	p.Others = total - known
	return p, nil
}

// denialRow reads one row. detail is empty if an older version counted it.
func denialRow(field, packed, detail string) (row admin.Denied, isSound bool) {
	var hasName bool
	row.Key.Subject, row.Key.Name, hasName = strings.Cut(field, "\x00")
	row.Count, row.LastAt = six(packed), store.Instant(six(packed[6:])*1000)
	if detail != "" {
		if len(detail) < denialDetail {
			return row, false
		}
		row.Since = store.Instant(six(detail) * 1000)
		row.Blocked, row.Compared, row.Passed = six(detail[6:]), six(detail[12:]), six(detail[18:])
		row.Limit, row.Override, _ = strings.Cut(detail[denialDetail:], "\x00")
	}
	return row, hasName && row.Key.Name != "" && denialtable.IsSound(&row)
}

// readHash reads a hash, which may not exist.
func (s *Store) readHash(ctx context.Context, key string) (map[string]string, error) {
	cmd, err := s.lanes.Read(ctx, key, "hgetall", key)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return nil, &store.ForeignError{StoreKey: key, Holds: "a value that is not a table of denials"}
	} else if err != nil {
		return nil, s.lanes.Explain(err, "read of denials", false, []string{key})
	}
	held := map[string]string{}
	switch fields := cmd.Val().(type) {
	case map[any]any: // RESP3
		for field, value := range fields {
			held[lanes.Text(field)] = lanes.Text(value)
		}
	case []any:
		for i := 0; i+1 < len(fields); i += 2 {
			held[lanes.Text(fields[i])] = lanes.Text(fields[i+1])
		}
	default:
		return nil, s.lanes.Refuse("read of denials", false)
	}
	return held, nil
}
