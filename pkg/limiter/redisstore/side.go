package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// side is the [admin.SideTable] of a store. A record is a string of its own; all of a table share a hash tag, so that a
// Cluster has them in one slot. A list is a stream.
type side struct{ *Store }

// recordKey returns the key of a record.
func (s side) recordKey(t admin.Table, name string) string {
	key := string(s.lanes.Own) + "!"
	switch {
	case t == admin.IdentityTable:
		return key + "id"
	case t == admin.OverrideTable && name == "":
		return key + "{override}"
	case t == admin.OverrideTable:
		return key + "{override}:" + name
	case t == admin.ReportTable:
		return key + "{config}:process:" + name
	case name == "":
		return key + "{config}:head"
	}
	return key + "{config}:v:" + name
}

// listKey returns the key of a list. It does not expire: nobody should be able to wait until a change is forgotten.
func (s side) listKey(l admin.List) string {
	return string(s.lanes.Own) + "!" + [...]string{admin.JournalList: "{audit}", admin.HistoryList: "{config}:history"}[l]
}

// An override is the magic, when it was set, when it ends, and its text. Instants are six bytes, in ms since the epoch.
const (
	overrideMagic = "RO\x01"
	overrideHead  = len(overrideMagic) + 6 + 6
)

// The index of the overrides is under the name of their version, which is read by one GETRANGE. It is the magic, when the
// last override ends, the version, and for each override its ID and when it ends. It expires with the last override.
const (
	indexMagic   = "RI\x01"
	indexVersion = len(indexMagic) + 6
	indexHead    = indexVersion + admin.OverrideVersionSize
	indexEntry   = admin.OverrideIDSize + 6
	indexSize    = indexHead + admin.MaxOverrides*indexEntry
)

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

// appendMillis appends an instant.
func appendMillis(buf []byte, instant store.Instant) []byte {
	return appendSix(buf, uint64(instant/1000))
}

// millis reads an instant.
func millis(text string) store.Instant { return store.Instant(six(text) * 1000) }

func foreign(key string) error {
	return &store.ForeignError{StoreKey: key, Holds: "a value that limitctl did not write"}
}

// Get implements [admin.SideTable]: by a GETRANGE, which bounds what a foreign value takes, or if records end by a script.
func (s side) Get(ctx context.Context, t admin.Table, names ...string) (found []admin.TableRecord, now store.Instant, err error) {
	if err := s.lanes.Check(); err != nil {
		return nil, 0, err
	}
	if len(names) == 1 && (t != admin.OverrideTable || names[0] == "") {
		found, err = s.getOne(ctx, t, names[0])
		return found, 0, err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	most := t.Max("one")
	if t == admin.OverrideTable {
		most += overrideHead
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = s.recordKey(t, name)
	}
	values, lefts, now, err := s.getMany(ctx, t, keys, most)
	if err != nil {
		return nil, 0, err
	}
	for i, value := range values {
		r := admin.TableRecord{Name: names[i], Value: value, Place: keys[i], Left: lefts[i]}
		sound := value != "\x00"
		if t == admin.OverrideTable && value != "" {
			if sound = strings.HasPrefix(value, overrideMagic) && len(value) > overrideHead; sound {
				times := value[len(overrideMagic):]
				r.Created, r.Ends, r.Value = millis(times), millis(times[6:]), value[overrideHead:]
				r.Left = now.Until(r.Ends)
			}
		}
		switch {
		case !sound || len(value) > most:
			err = errors.Join(err, foreign(keys[i]))
		case value != "" && (r.Ends == 0 || r.Ends > now) && r.Left >= 0:
			found = append(found, r)
		}
	}
	return found, now, err
}

// getMany reads keys at one instant. A value of another type is "\x00", one that is too long is cut. What is left is known of
// reports, and the instant of overrides.
func (s side) getMany(ctx context.Context, t admin.Table, keys []string, most int) (values []string, lefts []time.Duration,
	now store.Instant, err error) {
	asked := "time"
	if t == admin.ReportTable {
		asked = "ttl"
	}
	reading := "read of " + t.String()
	reply, err := s.lanes.Array(ctx, false, lua.GetRecords, keys, []any{most, asked}, 3)
	if err != nil {
		return nil, nil, 0, s.lanes.Explain(err, reading, false, keys)
	}
	if len(reply)%3 != 1 {
		return nil, nil, 0, s.lanes.Refuse(reading, false)
	}
	if now = store.Instant(lanes.Integer(reply[0]) * 1000); s.lanes.Clock != nil {
		now = store.InstantOf(s.lanes.Clock())
	}
	values, lefts = make([]string, len(keys)), make([]time.Duration, len(keys))
	for reply = reply[1:]; len(reply) > 0; reply = reply[3:] {
		i := lanes.Integer(reply[0]) - 1
		if i < 0 || i >= int64(len(keys)) {
			return nil, nil, 0, s.lanes.Refuse(reading, false)
		}
		if values[i] = "\x00"; reply[1] != int64(0) {
			values[i] = lanes.Text(reply[1])
		}
		lefts[i] = time.Duration(lanes.Integer(reply[2])) * time.Millisecond
	}
	return values, lefts, now, nil
}

// getOne reads a record by itself.
func (s side) getOne(ctx context.Context, t admin.Table, name string) (found []admin.TableRecord, err error) {
	key, most, reading := s.recordKey(t, name), t.Max(name), "read of "+t.String()
	if t == admin.OverrideTable {
		most = indexHead - 1
	}
	cmd, err := s.lanes.Read(ctx, key, "getrange", key, 0, most)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return nil, foreign(key)
	} else if err != nil {
		return nil, s.lanes.Explain(err, reading, false, []string{key})
	}
	value, err := cmd.Text()
	if err != nil {
		return nil, s.lanes.Refuse(reading, false)
	}
	if t == admin.OverrideTable {
		i, err := s.parseIndex(value)
		if err != nil || s.lanes.Clock != nil && i.ends <= store.InstantOf(s.lanes.Clock()) { // else it has expired
			return nil, err
		}
		value = i.version
	}
	switch {
	case value == "":
		return nil, nil
	case len(value) > t.Max(name):
		return nil, foreign(key)
	}
	return []admin.TableRecord{{Name: name, Value: value, Place: key}}, nil
}

// overrideIndex is the index of the overrides, which is zero if there are none.
type overrideIndex struct {
	version string
	ends    store.Instant
	entries []admin.TableRecord // names and ends
}

func (s side) parseIndex(text string) (i overrideIndex, err error) {
	wrong := foreign(s.recordKey(admin.OverrideTable, ""))
	if text == "" {
		return i, nil
	}
	if !strings.HasPrefix(text, indexMagic) || len(text) < indexHead || len(text) > indexSize || (len(text)-indexHead)%indexEntry != 0 {
		return i, wrong
	}
	i.ends, i.version = millis(text[len(indexMagic):]), text[indexVersion:indexHead]
	for rest := text[indexHead:]; rest != ""; rest = rest[indexEntry:] {
		name := rest[:admin.OverrideIDSize]
		if !admin.IsOverrideID(name) {
			return overrideIndex{}, wrong
		}
		i.entries = append(i.entries, admin.TableRecord{Name: name, Ends: millis(rest[admin.OverrideIDSize:])})
	}
	return i, nil
}

// index reads the index without what has ended.
func (s side) index(ctx context.Context) (i overrideIndex, now store.Instant, err error) {
	if err := s.lanes.Check(); err != nil {
		return i, 0, err
	}
	key := s.recordKey(admin.OverrideTable, "")
	values, _, now, err := s.getMany(ctx, admin.OverrideTable, []string{key}, indexSize)
	if err == nil {
		i, err = s.parseIndex(values[0])
	}
	i.entries = slices.DeleteFunc(i.entries, func(r admin.TableRecord) bool { return r.Ends <= now })
	return i, now, err
}

// Names implements [admin.SideTable].
func (s side) Names(ctx context.Context) (names []string, version string, err error) {
	i, _, err := s.index(ctx)
	for _, r := range i.entries {
		names = append(names, r.Name)
	}
	return names, i.version, err
}

// Change implements [admin.SideTable] in one script call; for overrides it reads the index before.
func (s side) Change(ctx context.Context, c *admin.Change) (done bool, err error) {
	if err := cmp.Or(s.lanes.Check(), c.Check()); err != nil {
		return false, err
	}
	first, most, set := 0, c.Table.Max(c.Guard), c.Set
	if c.Table == admin.OverrideTable {
		first, most = indexVersion, admin.OverrideVersionSize
		if set, done, err = s.packed(ctx, c); err != nil || !done {
			return false, err
		}
	}
	keys := []string{s.recordKey(c.Table, c.Guard)}
	arguments := []any{c.Was, first, most, c.Line, admin.HistoryList.Kept()}
	for _, r := range set {
		left := any("")
		if r.Left > 0 {
			left = max(1, r.Left.Milliseconds())
		}
		keys, arguments = append(keys, s.recordKey(c.Table, r.Name)), append(arguments, r.Value, left)
	}
	for _, name := range c.Drop {
		keys, arguments = append(keys, s.recordKey(c.Table, name)), append(arguments, "", "")
	}
	if c.Line != "" {
		keys = append(keys, s.listKey(admin.HistoryList))
	}
	cmd, err := s.lanes.Run(ctx, true, lua.ChangeRecords, keys, arguments)
	if err != nil {
		return false, s.lanes.Explain(err, c.What, true, keys)
	}
	n, err := cmd.Int64()
	if err != nil {
		return false, s.lanes.Refuse(c.What, true)
	}
	return n == 1, nil
}

// packed returns the overrides that a change sets as they are held, and before them the index; an entry without its override
// is left out by readers. done is false if the version is another one now.
func (s side) packed(ctx context.Context, c *admin.Change) (set []admin.TableRecord, done bool, err error) {
	i, now, err := s.index(ctx)
	if err != nil || i.version != c.Was {
		return nil, false, err
	}
	later := time.Duration(0) // keys end a while after the clock says so, if that is not the server's
	if s.lanes.Clock != nil {
		later = time.Hour
	}
	// All that one change writes with one end expires together, and at some time.
	left := func(ends store.Instant) time.Duration { return max(time.Millisecond, now.Until(ends)) + later }
	names := slices.Clone(c.Drop)
	set = make([]admin.TableRecord, 1, 1+len(c.Set))
	for _, r := range c.Set {
		if r.Name == "" {
			i.version = r.Value
			continue
		}
		names, i.entries = append(names, r.Name), append(i.entries, r)
		text := appendMillis(appendMillis([]byte(overrideMagic), r.Created), r.Ends)
		r.Value, r.Left = string(text)+r.Value, left(r.Ends)
		set = append(set, r)
	}
	ends, entries := store.Instant(0), []byte(nil)
	for at, r := range i.entries {
		if at >= len(i.entries)-len(set)+1 || !slices.Contains(names, r.Name) { // the last ones are those that are set
			entries = appendMillis(append(entries, r.Name...), r.Ends)
			ends = max(ends, r.Ends)
		}
	}
	if len(entries) > 0 {
		set[0].Value = string(append(append(appendMillis([]byte(indexMagic), ends), i.version...), entries...))
		set[0].Left = left(ends)
	}
	return set, true, nil
}

// Append implements [admin.SideTable] by a single XADD. Entries are dated by the server, whatever clock the store decides by.
func (s side) Append(ctx context.Context, l admin.List, text string) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	key := s.listKey(l)
	_, err := s.lanes.Write(ctx, key, true, "xadd", key, "maxlen", l.Kept(), "*", listField, text)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return foreign(key)
	} else if err != nil {
		return s.lanes.Explain(err, "write to "+l.String(), true, []string{key})
	}
	return nil
}

const (
	// listField is the one field of each entry of a stream.
	listField = "text"
	// listPage is how many entries are read at a time, so that an answer stays small.
	listPage = 250
)

// Lines implements [admin.SideTable], a page at a time.
func (s side) Lines(ctx context.Context, l admin.List, most int) (lines []admin.JournalEntry, damaged int, err error) {
	if err := s.lanes.Check(); err != nil {
		return nil, 0, err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	key, reading := s.listKey(l), "read of "+l.String()
	for most, before := min(most, l.Kept()), "+"; most > 0 && before != ""; most -= listPage {
		page := min(most, listPage)
		cmd, err := s.lanes.Read(ctx, key, "xrevrange", key, before, "-", "count", page)
		if redisserver.IsErrorReply(err, "WRONGTYPE") {
			return nil, 0, foreign(key)
		} else if err != nil {
			return nil, 0, s.lanes.Explain(err, reading, false, []string{key})
		}
		found, isArray := cmd.Val().([]any)
		if !isArray || len(found) > page {
			return nil, 0, s.lanes.Refuse(reading, false)
		}
		before = ""
		for _, each := range found {
			entry, previous, sound := parseEntry(each)
			if !sound {
				damaged++
			} else {
				lines = append(lines, entry)
			}
			before = previous
		}
		if len(found) < page {
			break
		}
	}
	slices.Reverse(lines)
	return lines, damaged, nil
}

// parseEntry reads an entry of a stream: its number and its fields. previous is the number before, the last where a next
// page can begin; empty if there is none.
func parseEntry(reply any) (entry admin.JournalEntry, previous string, sound bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return entry, "", false
	}
	milliseconds, sequence, found := strings.Cut(lanes.Text(parts[0]), "-")
	ms, err := strconv.ParseUint(milliseconds, 10, 64)
	n, err2 := strconv.ParseUint(sequence, 10, 64)
	if !found || err != nil || err2 != nil {
		return entry, "", false
	}
	switch {
	case n > 0:
		previous = fmt.Sprintf("%d-%d", ms, n-1)
	case ms > 0:
		previous = fmt.Sprintf("%d-%d", ms-1, uint64(math.MaxUint64))
	}
	fields, _ := parts[1].([]any)
	if len(fields) != 2 || lanes.Text(fields[0]) != listField || ms > uint64(store.MaxInstant)/1000 {
		return entry, previous, false
	}
	entry = admin.JournalEntry{At: time.UnixMilli(int64(ms)).UTC(), Text: lanes.Text(fields[1])}
	return entry, previous, entry.IsSound()
}
