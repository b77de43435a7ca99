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
	// minuteTries is how often a write looks for the minute that the server is in. The
	// second one knows it, unless a minute ends just then.
	minuteTries = 3
	// minutesAtOnce is how many minutes are read at a time. A minute of the longest rows
	// is 1 MB, in the answer and as it is held here; one that is not a minute can be as large
	// as any answer.
	minutesAtOnce = 2

	// minuteMasters is how many minutes are tried for one whose master tells its clock, and
	// awayShare of the time that is left is what one master gets.
	minuteMasters = 8
	awayShare     = 4

	minuteMS = int64(time.Minute / time.Millisecond)
)

// denialKey returns the key of the denials of a minute. The number is its hash tag, so
// that in a Cluster the minutes are spread over the masters.
func (s *Store) denialKey(minute int64) string {
	return fmt.Sprintf("%s!{%s}", s.lanes.Own, denialTag(minute))
}

func denialTag(minute int64) string { return fmt.Sprintf("denials:%d", minute) }

// AddDenials implements [admin.DenialTable] in one script call. The minute is that of the
// server's clock, which the key has to be known before: it is guessed, and the server says
// so if it is another.
func (s *Store) AddDenials(ctx context.Context, d admin.Denials) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	if err := d.Check(); err != nil {
		return err
	}
	clock := any("")
	for range minuteTries {
		now := time.Now().UnixMilli() + s.ahead.Load()
		if s.lanes.Clock != nil {
			now = s.lanes.Clock().UnixMilli()
			clock = now
		}
		minute := now / minuteMS
		keys := []string{s.denialKey(minute)}
		cmd, err := s.lanes.Run(ctx, true, s.lanes.Scripts.Named(lua.AddDenials), keys, denialArguments(minute, clock, &d))
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
func denialArguments(minute int64, clock any, d *admin.Denials) []any {
	packed := appendSix(nil, uint64(d.Total()))
	lost := uint64(0)
	if d.Lost {
		lost = 1
	}
	packed = appendSix(packed, lost)
	arguments := append(make([]any, 0, 4+len(d.Rows)), minute, clock, nil, "")
	for _, row := range d.Rows {
		packed = appendSix(packed, uint64(row.Count))
		packed = appendSix(packed, uint64(max(0, d.Now-row.LastAt)/1000))
		arguments = append(arguments, row.Key.Subject+"\x00"+row.Key.Name)
	}
	arguments[2] = packed
	return arguments
}

// appendSix appends the last six bytes of n.
func appendSix(buf []byte, n uint64) []byte {
	eight := binary.BigEndian.AppendUint64(nil, n)
	return append(buf, eight[2:]...)
}

func six(text string) int64 {
	var eight [8]byte
	copy(eight[2:], text)
	return int64(binary.BigEndian.Uint64(eight[:]))
}

// Denials implements [admin.DenialTable]. It reads up to 61 minutes, a key each.
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
	sum := denialtable.NewSum(now, last)
	from, to := denialtable.Minutes(now, last)
	for first := from; first <= to; first += minutesAtOnce {
		read := make([]denialMinute, min(minutesAtOnce, to-first+1))
		errs := make([]error, len(read))
		var reading panics.Group
		for i := range read {
			reading.Go(func() {
				errs[i] = away.ask(ctx, first+int64(i), func(ctx context.Context) (err error) {
					read[i], err = s.readMinute(ctx, first+int64(i))
					return err
				})
			})
		}
		if err := reading.Wait(); err != nil {
			return admin.Denials{}, s.lanes.Explain(lanes.MaybeSent(err), "read of denials", false, nil)
		}
		for i := range read {
			if errs[i] != nil {
				return admin.Denials{}, errs[i]
			}
			sum.Add(read[i].rows, read[i].others, read[i].lost)
		}
	}
	denials, err := sum.Denials(), away.err()
	denials.Lost = denials.Lost || err != nil
	return denials, err
}

// denialClock returns the instant that counts: what a server's clock shows, unless the store
// has another one. In a Cluster it is the clock of the master that has the current minute, or
// the one before if that master is away.
func (s *Store) denialClock(ctx context.Context, away *awayMasters) (now store.Instant, err error) {
	if s.lanes.Clock != nil {
		return store.InstantOf(s.lanes.Clock()), nil
	}
	current := (time.Now().UnixMilli() + s.ahead.Load()) / minuteMS
	for minute := current; minute > current-minuteMasters && now == 0; minute-- {
		err = away.ask(ctx, minute, func(ctx context.Context) (err error) {
			now, err = s.serverTime(ctx, s.denialKey(minute))
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

// ask asks the master that has a minute, unless it is known to be away. That a master of
// several is away is no error here, but one of err.
func (a *awayMasters) ask(ctx context.Context, minute int64, question func(ctx context.Context) error) error {
	shard := a.store.lanes.ShardOf(denialTag(minute))
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

type denialMinute struct {
	rows   []admin.Denied
	others int64
	lost   bool
}

// readMinute reads the denials of a minute. There may be none.
func (s *Store) readMinute(ctx context.Context, number int64) (m denialMinute, err error) {
	key := s.denialKey(number)
	cmd, err := s.lanes.Read(ctx, key, "hgetall", key)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return m, &store.ForeignError{StoreKey: key, Holds: "a value that is not a table of denials"}
	} else if err != nil {
		return m, s.lanes.Explain(err, "read of denials", false, []string{key})
	}
	total, known := int64(0), int64(0)
	add := func(field, value any) bool {
		name, packed := lanes.Text(field), lanes.Text(value)
		if len(packed) != 12 {
			return false
		}
		count, last := six(packed[:6]), six(packed[6:])
		if name == "" {
			total, m.lost = count, last != 0
			return true
		}
		var row admin.Denied
		var named bool
		row.Key.Subject, row.Key.Name, named = strings.Cut(name, "\x00")
		row.Count, row.LastAt = count, store.Instant(last*1000)
		if !named || row.Key.Name == "" || row.Key.Validate() != nil {
			return false
		}
		known += count
		m.rows = append(m.rows, row)
		return true
	}
	sound := true
	switch fields := cmd.Val().(type) {
	case map[any]any: // RESP3
		for field, value := range fields {
			sound = add(field, value) && sound
		}
	case []any:
		for i := 0; i+1 < len(fields); i += 2 {
			sound = add(fields[i], fields[i+1]) && sound
		}
	default:
		return m, s.lanes.Refuse("read of denials", false)
	}
	if !sound || total < known || known < 0 {
		return m, &store.ForeignError{StoreKey: key, Holds: "a hash that is not a table of denials"}
	}
	m.others = total - known
	return m, nil
}
