package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	"github.com/limitctl/limitctl/internal/overridetable"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.OverrideTable = (*Store)(nil)

// overrideIndexKey returns the key of the index of all overrides, and overrideKey that of one. All
// share a hash tag, so that a Cluster has them in one slot.
func (s *Store) overrideIndexKey() string     { return string(s.lanes.Own) + "!{override}" }
func (s *Store) overrideKey(id string) string { return s.overrideIndexKey() + ":" + id }
func (s *Store) overrideKeys(ids ...string) (keys []string) {
	keys = append(make([]string, 0, 1+len(ids)), s.overrideIndexKey())
	for _, id := range ids {
		keys = append(keys, s.overrideKey(id))
	}
	return keys
}

const (
	settingOverride  = "setting of an override"
	revokingOverride = "revocation of an override"
	readingOverrides = "read of overrides"
)

// OverrideVersion implements [admin.OverrideTable] by a GETRANGE.
func (s *Store) OverrideVersion(ctx context.Context) (string, error) {
	if err := s.lanes.Check(); err != nil {
		return "", err
	}
	index, err := s.readOverrideIndex(ctx, lua.OverridesHead)
	if err != nil || index.isOver(s.lanes.Clock) {
		return "", err
	}
	return index.version, nil
}

// overrideIndex is what lua/overrides_index.lua says.
type overrideIndex struct {
	version string
	ends    int64 // of the last override, in ms
	ids     []string
}

// isOver reports whether all overrides have ended by clock. By the server's own, the index is
// gone then.
func (i *overrideIndex) isOver(clock func() time.Time) bool {
	return clock != nil && i.ends <= clock().UnixMilli()
}

// readOverrideIndex reads the first so many bytes of the index. It is zero if there is none.
func (s *Store) readOverrideIndex(ctx context.Context, bytes int) (overrideIndex, error) {
	key := s.overrideIndexKey()
	cmd, err := s.lanes.Read(ctx, key, "getrange", key, 0, bytes-1)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return overrideIndex{}, s.foreignIndex()
	} else if err != nil {
		return overrideIndex{}, s.lanes.Explain(err, readingOverrides, false, []string{key})
	}
	read, err := cmd.Text()
	if err != nil {
		return overrideIndex{}, s.lanes.Refuse(readingOverrides, false)
	}
	return s.parseOverrideIndex(read)
}

func (s *Store) foreignIndex() error {
	return &store.ForeignError{StoreKey: s.overrideIndexKey(), Holds: "a value that is not an index of overrides"}
}

func (s *Store) parseOverrideIndex(text string) (i overrideIndex, err error) {
	if text == "" {
		return i, nil
	}
	if !strings.HasPrefix(text, lua.OverridesMagic) || len(text) < lua.OverridesHead || len(text) > lua.OverridesSize ||
		(len(text)-lua.OverridesHead)%lua.OverridesEntry != 0 {
		return i, s.foreignIndex()
	}
	const magic = len(lua.OverridesMagic)
	i.ends, i.version = six(text[magic:magic+6]), text[magic+6:lua.OverridesHead]
	for rest := text[lua.OverridesHead:]; rest != ""; rest = rest[lua.OverridesEntry:] {
		id := rest[:overridetable.IDSize]
		if !overridetable.IsID(id) {
			return overrideIndex{}, s.foreignIndex()
		}
		i.ids = append(i.ids, id)
	}
	return i, nil
}

// listTries is how often the list is read again because it changed in between.
const listTries = 4

// Overrides implements [admin.OverrideTable]: it reads the index, and then all that this has in one
// script call, together with the index as it is then.
func (s *Store) Overrides(ctx context.Context) (list []store.Override, version string, err error) {
	if err := s.lanes.Check(); err != nil {
		return nil, "", err
	}
	index, err := s.readOverrideIndex(ctx, lua.OverridesSize+1)
	if err != nil || index.version == "" {
		return nil, "", err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return nil, "", err
	}
	defer end()
	for try := 1; ; try++ {
		keys := s.overrideKeys(index.ids...)
		cmd, err := s.lanes.Run(ctx, false, lua.ListOverrides, keys, nil)
		if err != nil {
			return nil, "", s.lanes.Explain(err, readingOverrides, false, keys)
		}
		reply, err := cmd.Slice()
		if err != nil || len(reply) != len(keys)+1 {
			return nil, "", s.lanes.Refuse(readingOverrides, false)
		}
		now, err := s.parseOverrideIndex(lanes.Text(reply[1]))
		if err != nil {
			return nil, "", err
		}
		if now.version != index.version && now.version != "" && try < listTries {
			index = now
			continue
		}
		// After so many changes it returns the older version, so that the next look finds another.
		instant := s.overrideClock(lanes.Integer(reply[0]))
		list, err := s.parseOverrides(index.ids, reply[2:], instant)
		// A server keeps a key during the millisecond at which it ends.
		if now.version == "" || store.Instant(now.ends*1000) <= instant {
			return list, "", err
		}
		return list, index.version, err
	}
}

// overrideClock returns the instant that counts, the server's clock showing ms.
func (s *Store) overrideClock(ms int64) store.Instant {
	if s.lanes.Clock != nil {
		return store.InstantOf(s.lanes.Clock())
	}
	return store.Instant(ms * 1000)
}

// parseOverrides returns the overrides that have not ended at now. The error is about those that
// limitctl did not write.
func (s *Store) parseOverrides(ids []string, records []any, now store.Instant) (list []store.Override, err error) {
	for i, record := range records {
		if record == "" {
			continue // it has ended
		}
		o, wrong := s.parseOverride(ids[i], lanes.Text(record), now)
		if wrong != nil {
			err = errors.Join(err, wrong)
		} else if o.Left > 0 {
			list = append(list, o)
		}
	}
	overridetable.SortNewestFirst(list)
	return list, err
}

// parseOverride reads what is under the key of an override.
func (s *Store) parseOverride(id, record string, now store.Instant) (o store.Override, err error) {
	if strings.HasPrefix(record, lua.OverrideMagic) && len(record) > lua.OverrideHead && len(record) <= lua.OverrideSize {
		o, err = overridetable.Decode([]byte(record[lua.OverrideHead:]))
	} else {
		err = errors.New("a value that is not an override")
	}
	var created, expires store.Instant
	if err == nil {
		const magic = len(lua.OverrideMagic)
		created, expires = store.Instant(six(record[magic:magic+6])*1000), store.Instant(six(record[magic+6:lua.OverrideHead])*1000)
		err = overridetable.CheckTimes(created, expires, now)
	}
	if err != nil {
		return o, &store.ForeignError{StoreKey: s.overrideKey(id), Holds: s.lanes.Servers.Redact(err.Error())}
	}
	overridetable.Complete(&o, id, created, expires, now)
	return o, nil
}

// SetOverride implements [admin.OverrideTable] in one script call.
func (s *Store) SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (store.Override, error) {
	if err := s.lanes.Check(); err != nil {
		return store.Override{}, err
	}
	written, err := overridetable.Encode(&o, lasts)
	if err != nil {
		return store.Override{}, err
	}
	for try := range overridetable.IDTries {
		id := written.ID(try)
		keys := s.overrideKeys(id)
		arguments := withMilliseconds([]any{id, overridetable.NewVersion(), overridetable.Milliseconds(lasts), written.Text,
			written.Which}, s.lanes.Clock)
		cmd, err := s.lanes.Run(ctx, true, lua.SetOverride, keys, arguments)
		switch {
		case redisserver.IsErrorReply(err, "TAKEN"):
			continue
		case redisserver.IsErrorReply(err, "FULL"):
			return store.Override{}, overridetable.ErrFull()
		case err != nil:
			return store.Override{}, s.lanes.Explain(err, settingOverride, true, keys)
		}
		created, err := cmd.Int64()
		if err != nil {
			return store.Override{}, s.lanes.Refuse(settingOverride, true)
		}
		set, err := overridetable.Decode(written.Text)
		expires := created + overridetable.Milliseconds(lasts)
		overridetable.Complete(&set, id, store.Instant(created*1000), store.Instant(expires*1000), store.Instant(created*1000))
		return set, err
	}
	return store.Override{}, overridetable.ErrNoID()
}

// withMilliseconds appends the instant in ms, if it is not the server's.
func withMilliseconds(arguments []any, clock func() time.Time) []any {
	if clock != nil {
		arguments = append(arguments, clock().UnixMilli())
	}
	return arguments
}

// RevokeOverride implements [admin.OverrideTable] in one script call.
func (s *Store) RevokeOverride(ctx context.Context, id string) (o store.Override, found bool, err error) {
	if err := s.lanes.Check(); err != nil {
		return store.Override{}, false, err
	}
	if !overridetable.IsID(id) {
		return o, false, nil
	}
	keys := s.overrideKeys(id)
	arguments := withMilliseconds([]any{id, overridetable.NewVersion()}, s.lanes.Clock)
	cmd, err := s.lanes.Run(ctx, true, lua.RevokeOverride, keys, arguments)
	if err != nil {
		return o, false, s.lanes.Explain(err, revokingOverride, true, keys)
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply) != 2 {
		return o, false, s.lanes.Refuse(revokingOverride, true)
	}
	record := lanes.Text(reply[1])
	if record == "" {
		return o, false, nil
	}
	if o, err = s.parseOverride(id, record, s.overrideClock(lanes.Integer(reply[0]))); err != nil {
		return o, false, err
	}
	return o, o.Left > 0, nil
}
