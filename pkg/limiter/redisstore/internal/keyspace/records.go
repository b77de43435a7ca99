package keyspace

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc64"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Members of a record that lie in one slot are a set: they are deleted together and come back together, or not at all.
// Those of several slots are changed slot by slot, since no script call can have them all.

// changing is the change of some records that go in one exchange.
type changing struct {
	*Keyspace
	verb    string
	script  *lua.Script
	first   []any // arguments before those about members
	records []admin.Record
	// members are what the records have, each once, those of a set next to each other, and of says which record has it.
	// others are further records with the same member, by its place, and known is the place of a store key.
	members []admin.Member
	of      []int
	others  map[int][]int
	known   map[string]int
	sets    []int // where each begins
	// outcomes are what the deletion says of members, 0 if that is not known, and late is what a member held that the
	// caller had not kept.
	outcomes []byte
	late     map[int]admin.Member
	mu       sync.Mutex
	errs     []error // about single keys
}

// change calls do with changes of records, as many at a time as one exchange can carry. members adds those of a record
// to all.
func (k *Keyspace) change(
	ctx context.Context, records []admin.Record, members func(all []admin.Member, i int) ([]admin.Member, error),
	do func(first int, c *changing) error,
) (err error) {
	all, ends := make([]admin.Member, 0, len(records)), make([]int, len(records)+1)
	for i := range records {
		if all, err = members(all, i); err != nil {
			return err
		}
		ends[i+1] = len(all)
	}
	size := func(i int) int { return records[i].Size() }
	return k.exchanges(ctx, len(records), size, func(first, end int) error {
		n := ends[end] - ends[first]
		c := &changing{Keyspace: k, records: records[first:end], members: all[ends[first]:ends[first]],
			of:   make([]int, 0, n),
			sets: make([]int, 0, n), others: map[int][]int{}, known: map[string]int{}, late: map[int]admin.Member{}}
		for i := range c.records {
			c.add(i, all[ends[first+i]:ends[first+i+1]])
		}
		c.outcomes = make([]byte, len(c.members))
		return do(first, c)
	})
}

// add divides the members of a record into sets. They come to lie in the place of members that were added. A record of
// ours has its key for itself.
func (c *changing) add(record int, members []admin.Member) {
	if c.IsCluster() && len(members) > 1 {
		slot := func(m admin.Member) int { return redisserver.SlotOf(redisserver.HashTag(m.StoreKey)) }
		slices.SortStableFunc(members, func(a, b admin.Member) int { return slot(a) - slot(b) })
	}
	begin := len(c.members)
	for _, m := range members {
		at := len(c.members)
		if before, has := c.known[m.StoreKey]; has {
			c.others[before] = append(c.others[before], record)
			continue
		}
		if at == begin || !c.together(c.members[at-1].StoreKey, m.StoreKey) {
			c.sets = append(c.sets, at)
		}
		if m.Type != recordKind {
			c.known[m.StoreKey] = at
		}
		c.members, c.of = append(c.members, m), append(c.of, record)
	}
}

// recordsOf calls do with the index of each record that has a member.
func (c *changing) recordsOf(m int, do func(record int)) {
	do(c.of[m])
	for _, record := range c.others[m] {
		do(record)
	}
}

// end is where a set ends in members.
func (c *changing) end(set int) int {
	if set+1 < len(c.sets) {
		return c.sets[set+1]
	}
	return len(c.members)
}

// eachCall calls do with the sets that one script call can have.
func (c *changing) eachCall(ctx context.Context, do func(sets []int) error) error {
	storeKeys, longest := make([]string, len(c.sets)), 1
	for i, begin := range c.sets {
		storeKeys[i] = c.members[begin].StoreKey
		longest = max(longest, c.end(i)-begin)
	}
	return c.EachBatch(ctx, storeKeys, max(1, keysPerCall/longest), do)
}

// call runs the script for sets, and returns its reply and the members that it is about. Keys of a single set that are
// on their way to another master are waited for.
func (c *changing) call(ctx context.Context, sets []int) (*redis.Cmd, []int, error) {
	all := make([]int, 0, len(sets))
	storeKeys, arguments := make([]string, 0, len(sets)), append(make([]any, 0, 1+2*len(sets)), c.first...)
	for _, set := range sets {
		for i := c.sets[set]; i < c.end(set); i++ {
			m := &c.members[i]
			kind, value := c.words(m, i > c.sets[set])
			all, storeKeys, arguments = append(all, i), append(storeKeys, m.StoreKey), append(arguments, kind, value)
		}
	}
	var cmd *redis.Cmd
	run := func() (err error) {
		cmd, err = c.Run(ctx, true, c.script, storeKeys, arguments)
		return err
	}
	err := run()
	if len(sets) == 1 {
		err = lanes.OnceMoved(ctx, err, run)
	}
	if err != nil {
		return nil, nil, c.Explain(err, c.verb, true, storeKeys)
	}
	return cmd, all, nil
}

// recordWords are the kinds of records as the deletion has them: they are deleted whenever they expire.
var recordWords = map[byte]any{'t': "record t", 'T': "record T", '-': "record -"}

// words are what the scripts get of a key, see lua/held.lua. A deletion needs no more than what tells a value from
// another.
func (c *changing) words(m *admin.Member, with bool) (kind, value any) {
	text, form := valueOf(m)
	if c.script == lua.Delete {
		if text, form = keptValue(text, form); m.Dump == nil {
			form = '-'
		}
		if m.Type == recordKind {
			return recordWords[form], text
		}
	}
	at := int64(-1)
	if !m.Expires.IsZero() {
		at = m.Expires.UnixMilli()
	}
	word := make([]byte, 0, 32)
	if with {
		word = append(word, '+')
	}
	word = append(append(word, m.Type...), ' ', form, ' ')
	return string(strconv.AppendInt(word, at, 10)), text
}

// valueOf is the value of a member as the scripts know it, and its form: it is a text or a dump.
func valueOf(m *admin.Member) (value []byte, form byte) {
	switch m.Type {
	case recordKind:
		return m.Dump, 't'
	case string(layouts.StringValue):
		if text, ok := dumpedText(m.Dump); ok {
			return text, 't'
		}
	}
	return m.Dump, 'd'
}

// keptValue tells the scripts which value the caller has kept: a short one itself, a long one by a checksum that they
// can compute, too. The sum of a short one would cost the server more than to read it.
func keptValue(value []byte, form byte) (kept []byte, keptForm byte) {
	const keptAsIs = 254 // whose length fits a byte with the form
	if len(value) <= keptAsIs {
		return value, form
	}
	sum := sha1.Sum(value)
	return hex.AppendEncode(nil, sum[:]), form - 'a' + 'A'
}

// Delete implements [admin.Keyspace] with a script that checks each value first. A record is deleted if any of its
// members was there. A member that several records share is deleted once, for all of them.
func (k *Keyspace) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record,
	err error) {
	if err := k.Check(); err != nil {
		return 0, nil, err
	}
	var errs []error
	members := func(all []admin.Member, i int) ([]admin.Member, error) { return k.layout.members(all, &records[i]) }
	err = k.change(ctx, records, members, func(_ int, c *changing) error {
		c.verb, c.script = "deletion", lua.Delete
		err := c.eachCall(ctx, func(sets []int) error { return c.deleteSets(ctx, sets) })
		gone, some := c.deleted()
		deleted, changed, errs = deleted+gone, append(changed, some...), append(errs, c.errs...)
		return err
	})
	return deleted, changed, errors.Join(append(errs, err)...)
}

// deleteSets deletes sets by a script call, and by more where the values are too large for one answer.
func (c *changing) deleteSets(ctx context.Context, sets []int) error {
	left, err := c.deleteOnce(ctx, sets)
	for _, set := range left {
		again, err := c.deleteOnce(ctx, []int{set})
		if err != nil {
			return err
		}
		if len(again) > 0 {
			storeKey := c.members[c.sets[set]].StoreKey
			c.mu.Lock()
			c.errs = append(c.errs, &store.ForeignError{StoreKey: storeKey, Holds: "by now more than a backup takes"})
			c.mu.Unlock()
		}
	}
	return err
}

// deleteOnce deletes sets, and returns those that were left since too much had to be returned.
func (c *changing) deleteOnce(ctx context.Context, sets []int) (left []int, err error) {
	cmd, all, err := c.call(ctx, sets)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply) == 0 || len(lanes.Text(reply[0])) != len(all) {
		return nil, c.Refuse(c.verb, true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, i := range all {
		c.outcomes[i] = lanes.Text(reply[0])[n]
	}
	for _, set := range sets {
		if bytes.IndexByte(c.outcomes[c.sets[set]:c.end(set)], 'b') >= 0 {
			left = append(left, set)
		}
	}
	ok := eachReported(reply, len(all), func(n int, holds string, was []byte, until time.Time) {
		m := &c.members[all[n]]
		if holds != "" {
			holds = c.Servers.Redact(holds)
			if m.Type != recordKind {
				holds = fmt.Sprintf("a %s by now, and held a %s", holds, m.Type)
			}
			c.errs = append(c.errs, &store.ForeignError{StoreKey: m.StoreKey, Holds: holds})
			return
		}
		if _, form := valueOf(m); form == 't' && m.Type != recordKind {
			was = dumpText(was)
		}
		c.late[all[n]] = admin.Member{StoreKey: m.StoreKey, Type: m.Type, Dump: was, Expires: until}
	})
	if !ok {
		return nil, c.Refuse(c.verb, true)
	}
	return left, nil
}

// deleted returns how many records were deleted, and those that held something else than what the caller has kept, as
// they were.
func (c *changing) deleted() (deleted int, changed []admin.Record) {
	type fate struct{ some, new bool }
	fates := make([]fate, len(c.records))
	for i, outcome := range c.outcomes {
		_, isLate := c.late[i]
		isNew := isLate || outcome != '1' && outcome != 0 && c.members[i].Dump != nil
		c.recordsOf(i, func(record int) {
			f := &fates[record]
			f.some, f.new = f.some || outcome == '1', f.new || isNew
		})
	}
	held := map[int][]admin.Member{} // what was deleted, or may be, of records that have changed
	for i, outcome := range c.outcomes {
		was, isLate := c.late[i]
		if !isLate {
			was = c.members[i]
		}
		c.recordsOf(i, func(record int) {
			if (outcome == '1' || outcome == 0) && fates[record].some && fates[record].new {
				held[record] = append(held[record], was)
			}
		})
	}
	for i := range fates {
		if fates[i].some {
			deleted++
		}
		if members, is := held[i]; is {
			changed = append(changed, c.layout.record(c.records[i], members))
		}
	}
	return deleted, changed
}

// Import implements [admin.Keyspace]. A large hash or set has its members in no order, so that one which is there
// already can seem to be in use. A member that a newer server has dumped, and this one cannot read, is a
// [store.ErrRefused].
func (k *Keyspace) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	outcomes, overwrites := make([]admin.ImportOutcome, len(records)), "0"
	if replace {
		overwrites = "1"
	}
	members := func(all []admin.Member, i int) ([]admin.Member, error) { return k.layout.sound(all, &records[i]) }
	return outcomes, k.change(ctx, records, members, func(first int, c *changing) error {
		c.verb, c.script, c.first = "import", lua.Import, []any{overwrites}
		err := c.eachCall(ctx, func(sets []int) error { return c.importSets(ctx, sets, outcomes[first:]) })
		if err == nil && len(c.errs) > 0 {
			err = c.errs[0]
		}
		return err
	})
}

// importSets brings back sets by a script call. outcomes are those of the records.
func (c *changing) importSets(ctx context.Context, sets []int, outcomes []admin.ImportOutcome) error {
	cmd, all, err := c.call(ctx, sets)
	if err != nil {
		return err
	}
	reply, err := cmd.Text()
	if err != nil || len(reply) != len(all) {
		return c.Refuse(c.verb, true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, i := range all {
		if m := &c.members[i]; reply[n] == 'v' {
			c.errs = append(c.errs, fmt.Errorf("%w: key %q was dumped by a newer server", store.ErrRefused, m.StoreKey))
			continue
		}
		outcome, known := importOutcomes[reply[n]]
		if !known {
			return c.Refuse(c.verb, true)
		}
		c.recordsOf(i, func(record int) { outcomes[record] = combined(outcomes[record], outcome) })
	}
	return nil
}

// importOutcomes are the bytes of a reply of lua/import.lua. What became of the others says why a member was left with
// them.
var importOutcomes = map[byte]admin.ImportOutcome{'i': admin.Imported, 'a': admin.AlreadyThere, 'l': admin.Lapsed,
	'u': admin.InUse,
	'f': admin.Foreign, '-': admin.NotKnown}

// combined returns the outcome of a record from the outcomes of two of its members: one that was left
// outweighs one that came back, which outweighs one that was there or had expired.
func combined(a, b admin.ImportOutcome) admin.ImportOutcome {
	for _, outcome := range []admin.ImportOutcome{admin.Foreign, admin.InUse, admin.Imported, admin.AlreadyThere} {
		if a == outcome || b == outcome {
			return outcome
		}
	}
	return max(a, b)
}

// A string is read by GETRANGE, and put into the form that DUMP gives it here: what is kept is what was judged, and it
// can be brought back to any server, also an older one. The form is that of Redis' files: a byte for the type, the
// string after its length, the version of the form in two bytes and a CRC in eight.

// The parts of a dump.
const (
	dumpVersion = 9 // that of Redis 5; servers take all that are not newer than theirs
	dumpEnd     = 2 + 8
	dumpString  = 0
)

// dumpTable is that of the CRC, which begins with 0 where package crc64 begins with all bits set.
var dumpTable = crc64.MakeTable(0x95ac9329ac4bc9b5)

func dumpSum(text []byte) uint64 { return ^crc64.Update(^uint64(0), dumpTable, text) }

// dumpText returns what DUMP could return of a string.
func dumpText(text []byte) []byte {
	dump := make([]byte, 0, 1+5+len(text)+dumpEnd)
	dump = append(dump, dumpString)
	switch n := len(text); {
	case n < 1<<6:
		dump = append(dump, byte(n))
	case n < 1<<14:
		dump = append(dump, 0x40|byte(n>>8), byte(n))
	default:
		dump = binary.BigEndian.AppendUint32(append(dump, 0x80), uint32(n))
	}
	dump = binary.LittleEndian.AppendUint16(append(dump, text...), dumpVersion)
	return binary.LittleEndian.AppendUint64(dump, dumpSum(dump))
}

// soundDump reports whether a dump is whole.
func soundDump(dump []byte) bool {
	end := len(dump) - 8
	return len(dump) > dumpEnd && binary.LittleEndian.Uint64(dump[end:]) == dumpSum(dump[:end])
}

// dumpedText returns the string that a dump holds. ok is false if the dump is not sound, is of
// something else, or holds the string in another form than dumpText's.
func dumpedText(dump []byte) (text []byte, ok bool) {
	if !soundDump(dump) || dump[0] != dumpString {
		return nil, false
	}
	rest := dump[1 : len(dump)-dumpEnd]
	if len(rest) == 0 {
		return nil, false
	}
	var length, head int
	switch first := rest[0]; {
	case first>>6 == 0:
		length, head = int(first), 1
	case first>>6 == 1 && len(rest) >= 2:
		length, head = int(first&0x3f)<<8|int(rest[1]), 2
	case first == 0x80 && len(rest) >= 5:
		length, head = int(binary.BigEndian.Uint32(rest[1:])), 5
	default:
		return nil, false
	}
	return rest[head:], len(rest)-head == length
}
