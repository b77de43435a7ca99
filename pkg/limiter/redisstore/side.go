package redisstore

import (
	"cmp"
	"context"
	"encoding/binary"
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
	return string(s.lanes.Own) + "!" + t.Key(name)
}

// listKey returns the key of a list. It does not expire: nobody should be able to wait until a change is forgotten.
func (s side) listKey(l admin.List) string {
	return string(s.lanes.Own) + "!" + [...]string{
		admin.JournalList: "{audit}", admin.HistoryList: "{config}:history"}[l]
}

// An override is the magic, when it was set, when it ends, and its text. Instants are six bytes, in ms since the epoch.
//
// The index of the overrides is under the name of their version. It is the magic, when the last override ends, the
// version, and for each override its ID and when it ends.
const (
	overrideMagic = "RO\x01"
	overrideHead  = len(overrideMagic) + 6 + 6
	indexMagic    = "RI\x01"
	indexVersion  = len(indexMagic) + 6
	indexHead     = indexVersion + admin.OverrideVersionSize
	indexEntry    = admin.OverrideIDSize + 6
	indexSize     = indexHead + admin.MaxOverrides*indexEntry
)

// sixBytes are the last six bytes of n.
func sixBytes(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))[2:]) }

func readSix(text string) int64 {
	return int64(binary.BigEndian.Uint64([]byte("\x00\x00" + text[:6])))
}

func foreign(key string) error {
	return &store.ForeignError{StoreKey: key, Holds: "a value that limitctl did not write"}
}

// Get implements [admin.SideTable]. Those overrides that the index has are in force.
func (s side) Get(ctx context.Context, t admin.Table, names ...string) (found []admin.TableRecord, now store.Instant,
	err error) {
	if err := cmp.Or(s.lanes.Check(), t.Check()); err != nil {
		return nil, 0, err
	}
	if len(names) == 1 {
		return s.read(ctx, t, names, false)
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	if len(names) > 0 {
		return s.read(ctx, t, names, false)
	}
	index, now, err := s.read(ctx, t, []string{""}, true)
	if err != nil || len(index) == 0 || len(index[0].Value) <= admin.OverrideVersionSize {
		return index, now, err
	}
	version := index[0]
	entries := version.Value[admin.OverrideVersionSize:]
	ends := make(map[string]store.Instant)
	for ; entries != ""; entries = entries[indexEntry:] {
		name := entries[:admin.OverrideIDSize]
		if !admin.IsOverrideID(name) {
			version.Value = ""
			return []admin.TableRecord{version}, now, nil
		}
		names, ends[name] = append(names, name), store.Instant(readSix(entries[admin.OverrideIDSize:])*1000)
	}
	found, now, err = s.read(ctx, t, names, true)
	for i := range found {
		found[i].Ends = cmp.Or(found[i].Ends, ends[found[i].Name])
	}
	// also damaged ones
	found = slices.DeleteFunc(found, func(r admin.TableRecord) bool { return r.Ends != 0 && r.Ends <= now })
	version.Value = version.Value[:admin.OverrideVersionSize]
	return append(found, version), now, err
}

// read reads records at one instant, or the whole index and then also if it has ended.
func (s side) read(ctx context.Context, t admin.Table, names []string, whole bool) (
	found []admin.TableRecord, now store.Instant,
	err error) {
	keys, most, asked := make([]string, len(names)), t.Max(names[0]), ""
	for i, name := range names {
		keys[i] = s.recordKey(t, name)
	}
	switch {
	case t == admin.ReportTable && len(names) > 1: // who reports reads one, and may lack the right to PTTL
		asked = "ttl"
	case t == admin.OverrideTable:
		if most, asked = most+overrideHead, "time"; names[0] == "" && whole {
			most = indexSize
		} else if names[0] == "" {
			most = indexHead - 1
		}
	}
	reading := "read of " + t.String()
	reply, err := s.lanes.Array(ctx, false, lua.GetRecords, keys, []any{most, asked}, 3)
	if err != nil {
		return nil, 0, s.lanes.Explain(err, reading, false, keys)
	}
	if len(reply)%3 != 1 {
		return nil, 0, s.lanes.Refuse(reading, false)
	}
	if now = store.Instant(lanes.Integer(reply[0]) * 1000); s.lanes.Clock != nil {
		now = store.InstantOf(s.lanes.Clock())
	}
	for reply = reply[1:]; len(reply) > 0; reply = reply[3:] {
		i := lanes.Integer(reply[0]) - 1
		if i < 0 || i >= int64(len(keys)) {
			return nil, 0, s.lanes.Refuse(reading, false)
		}
		r := admin.TableRecord{Name: names[i], Value: lanes.Text(reply[1]), Place: keys[i],
			Left: time.Duration(lanes.Integer(reply[2])) * time.Millisecond}
		switch {
		case t == admin.OverrideTable:
			unpackOverride(&r)
		case len(r.Value) > most:
			r.Value = ""
		}
		if r.Ends == 0 || r.Ends > now || whole && r.Name == "" {
			found = append(found, r)
		}
	}
	return found, now, nil
}

// unpackOverride reads what is held of an override or of the index, whose entries follow the version. A foreign value
// becomes none.
func unpackOverride(r *admin.TableRecord) {
	held := r.Value
	r.Value = ""
	switch {
	case r.Name != "" && strings.HasPrefix(held, overrideMagic) && len(held) > overrideHead &&
		len(held) <= overrideHead+
			admin.OverrideTable.Max(r.Name):
		times := held[len(overrideMagic):]
		r.Created, r.Ends = store.Instant(readSix(times)*1000), store.Instant(readSix(times[6:])*1000)
		r.Value = held[overrideHead:]
	case r.Name == "" && strings.HasPrefix(held, indexMagic) && len(held) >= indexHead && len(held) <= indexSize &&
		(len(held)-indexHead)%indexEntry == 0:
		r.Ends, r.Value = store.Instant(readSix(held[len(indexMagic):])*1000), held[indexVersion:]
	}
}

// pack returns how a record that a change sets is held. An entry of the index without its override is left out by
// readers.
func pack(c *admin.Change, r *admin.TableRecord) string {
	switch {
	case c.Table != admin.OverrideTable:
		return r.Value
	case r.Name != "":
		return overrideMagic + sixBytes(int64(r.Created)/1000) + sixBytes(int64(r.Ends)/1000) + r.Value
	}
	index := indexMagic + sixBytes(int64(r.Ends)/1000) + r.Value
	for _, r := range slices.Concat(c.Rest, c.Set) {
		if r.Name != "" {
			index += r.Name + sixBytes(int64(r.Ends)/1000)
		}
	}
	return index
}

// Change implements [admin.SideTable] in one script call.
func (s side) Change(ctx context.Context, c *admin.Change) (done bool, err error) {
	if err := cmp.Or(s.lanes.Check(), c.Check()); err != nil {
		return false, err
	}
	first, most, later := 0, c.Table.Max(c.Guard), time.Duration(0)
	if c.Table == admin.OverrideTable {
		first, most = indexVersion, admin.OverrideVersionSize
	}
	if s.lanes.Clock != nil { // keys end a while after that clock says so
		later = time.Hour
	}
	keys := []string{s.recordKey(c.Table, c.Guard)}
	arguments := []any{c.Was, first, most, c.Line, admin.HistoryList.Kept()}
	for i := range c.Set {
		r, left := &c.Set[i], any("")
		if r.Ends > 0 {
			left = max(1, (r.Left + later).Milliseconds())
		} else if r.Left > 0 {
			left = max(1, r.Left.Milliseconds())
		}
		keys, arguments = append(keys, s.recordKey(c.Table, r.Name)), append(arguments, pack(c, r), left)
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

// listField is the one field of each entry of a stream.
const listField = "text"

// Append implements [admin.SideTable] by a single XADD. Entries are dated by the server, whatever clock the store
// decides by.
func (s side) Append(ctx context.Context, l admin.List, text string) error {
	if err := s.lanes.Check(); err != nil {
		return err
	}
	key := s.listKey(l)
	_, err := s.lanes.Write(ctx, key, true, "xadd", key, "maxlen", l.Kept(), "*", listField, text)
	return s.explain(err, "write to "+l.String(), true, key)
}

// explain explains an error of a command on a key. A value of another type is a foreign one.
func (s side) explain(err error, what string, changes bool, key string) error {
	switch {
	case err == nil:
		return nil
	case redisserver.IsErrorReply(err, "WRONGTYPE"):
		return foreign(key)
	}
	return s.lanes.Explain(err, what, changes, []string{key})
}

// Lines implements [admin.SideTable].
func (s side) Lines(ctx context.Context, l admin.List, most int) (lines []admin.JournalEntry, damaged int, err error) {
	if err := s.lanes.Check(); err != nil || most <= 0 {
		return nil, 0, err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	key, reading := s.listKey(l), "read of "+l.String()
	most = min(most, l.Kept())
	cmd, err := s.lanes.Read(ctx, key, "xrevrange", key, "+", "-", "count", most)
	if err != nil {
		return nil, 0, s.explain(err, reading, false, key)
	}
	found, isArray := cmd.Val().([]any)
	if !isArray || len(found) > most {
		return nil, 0, s.lanes.Refuse(reading, false)
	}
	for _, each := range slices.Backward(found) {
		if entry := parseEntry(each); entry.IsSound() {
			lines = append(lines, entry)
		} else {
			damaged++
		}
	}
	return lines, damaged, nil
}

// parseEntry reads an entry of a stream, its number and its fields. One of others is not sound.
func parseEntry(reply any) (entry admin.JournalEntry) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return entry
	}
	milliseconds, _, _ := strings.Cut(lanes.Text(parts[0]), "-")
	ms, err := strconv.ParseInt(milliseconds, 10, 64)
	fields, _ := parts[1].([]any)
	if err != nil || ms > int64(store.MaxInstant)/1000 || len(fields) != 2 || lanes.Text(fields[0]) != listField {
		return entry
	}
	return admin.JournalEntry{At: time.UnixMilli(ms).UTC(), Text: lanes.Text(fields[1])}
}
