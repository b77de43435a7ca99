package keyspace

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Members of a record that lie in one slot are a set: they are deleted together and come back together, or not at all. Those of
// several slots are changed slot by slot, since no script call can have them all.

// member is a store key of a record, and of others that share it.
type member struct {
	*admin.Member
	record int // the first that has it
	others []int
	// What became of it, as a deletion says; 0 if that is not known. late is what it held that the caller had not kept.
	outcome byte
	late    *admin.Member
}

// changing is the change of some records that go in one exchange.
type changing struct {
	*Keyspace
	verb    string
	script  *lua.Script
	first   []any // arguments before those about members
	records []admin.Record
	members []member // those of a set are next to each other
	sets    [][]member
	mu      sync.Mutex
	errs    []error // about single keys
}

// change calls do with the change of records, as many at a time as one exchange can carry. Those of the record with an index
// are members from the end of the one before to its own.
func (k *Keyspace) change(
	ctx context.Context, records []admin.Record, members []admin.Member, ends []int, do func(first int, c *changing) error,
) error {
	size := func(i int) int { return records[i].Size() }
	return k.exchanges(ctx, len(records), size, func(first, end int) error {
		c := &changing{Keyspace: k, records: records[first:end]}
		begin := 0
		if first > 0 {
			begin = ends[first-1]
		}
		c.members, c.sets = make([]member, 0, ends[end-1]-begin), make([][]member, 0, end-first)
		known := map[string]int{} // where in members a store key is
		for i := range c.records {
			c.add(i, members[begin:ends[first+i]], known)
			begin = ends[first+i]
		}
		return do(first, c)
	})
}

// add divides the members of a record into sets. A record of ours has its key for itself.
func (c *changing) add(record int, members []admin.Member, known map[string]int) {
	for len(members) > 0 {
		begin := len(c.members)
		var elsewhere []admin.Member
		for i := range members {
			m := &members[i]
			if at, has := known[m.StoreKey]; has {
				c.members[at].others = append(c.members[at].others, record)
				continue
			}
			if len(c.members) > begin && !c.together(c.members[begin].StoreKey, m.StoreKey) {
				elsewhere = append(elsewhere, *m)
				continue
			}
			if m.Type != recordKind {
				known[m.StoreKey] = len(c.members)
			}
			c.members = append(c.members, member{Member: m, record: record})
		}
		if set := c.members[begin:]; len(set) > 0 {
			c.sets = append(c.sets, set)
		}
		members = elsewhere
	}
}

// ofRecords calls do with the index of each record that has a member.
func (m *member) ofRecords(do func(record int)) {
	do(m.record)
	for _, record := range m.others {
		do(record)
	}
}

// eachCall calls do with the sets that one script call can have.
func (c *changing) eachCall(ctx context.Context, do func(sets [][]member) error) error {
	storeKeys, longest := make([]string, len(c.sets)), 1
	for i, set := range c.sets {
		storeKeys[i] = set[0].StoreKey
		longest = max(longest, len(set))
	}
	return c.EachBatch(ctx, storeKeys, max(1, keysPerCall/longest), func(batch []int) error { return do(pick(c.sets, batch)) })
}

// call runs the script for sets, and returns its reply and their members. Keys of a single set that are on their way to another
// master are waited for.
func (c *changing) call(ctx context.Context, sets [][]member) (*redis.Cmd, []*member, error) {
	all := make([]*member, 0, len(sets))
	storeKeys, arguments := make([]string, 0, len(sets)), append(make([]any, 0, 1+2*len(sets)), c.first...)
	for _, set := range sets {
		for n := range set {
			m := &set[n]
			kind, value := c.words(m, n > 0)
			all, storeKeys, arguments = append(all, m), append(storeKeys, m.StoreKey), append(arguments, kind, value)
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

// words are what the scripts get of a key, see lua/held.lua. A deletion needs no more than what tells a value from another.
func (c *changing) words(m *member, with bool) (kind, value any) {
	text, form := valueOf(m.Member)
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

// keptValue tells the scripts which value the caller has kept: a short one itself, a long one by a checksum that they can compute,
// too. The sum of a short one would cost the server more than to read it.
func keptValue(value []byte, form byte) (kept []byte, keptForm byte) {
	const keptAsIs = 254 // whose length fits a byte with the form
	if len(value) <= keptAsIs {
		return value, form
	}
	sum := sha1.Sum(value)
	return hex.AppendEncode(nil, sum[:]), form - 'a' + 'A'
}

// Delete implements [admin.Keyspace] with a script that checks each value first. A record is deleted if any of its members was
// there. A member that several records share is deleted once, for all of them.
func (k *Keyspace) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	if err := k.Check(); err != nil {
		return 0, nil, err
	}
	members, ends := make([]admin.Member, 0, len(records)), make([]int, len(records))
	for i := range records {
		if members, err = k.layout.members(members, &records[i]); err != nil {
			return 0, nil, err
		}
		ends[i] = len(members)
	}
	var errs []error
	err = k.change(ctx, records, members, ends, func(_ int, c *changing) error {
		c.verb, c.script = "deletion", lua.Delete
		err := c.eachCall(ctx, func(sets [][]member) error { return c.deleteSets(ctx, sets) })
		gone, some := c.deleted()
		deleted, changed, errs = deleted+gone, append(changed, some...), append(errs, c.errs...)
		return err
	})
	return deleted, changed, errors.Join(append(errs, err)...)
}

// deleteSets deletes sets by a script call, and by more where the values are too large for one answer.
func (c *changing) deleteSets(ctx context.Context, sets [][]member) error {
	left, err := c.deleteOnce(ctx, sets)
	for _, set := range left {
		again, err := c.deleteOnce(ctx, [][]member{set})
		if err != nil {
			return err
		}
		if len(again) > 0 {
			c.fail(&store.ForeignError{StoreKey: set[0].StoreKey, Holds: "by now more than a backup takes"})
		}
	}
	return err
}

// fail notes an error about a single key.
func (c *changing) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// deleteOnce deletes sets, and returns those that were left since too much had to be returned.
func (c *changing) deleteOnce(ctx context.Context, sets [][]member) (left [][]member, err error) {
	cmd, all, err := c.call(ctx, sets)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply) == 0 || len(lanes.Text(reply[0])) != len(all) {
		return nil, c.Refuse(c.verb, true)
	}
	for i, outcome := range []byte(lanes.Text(reply[0])) {
		all[i].outcome = outcome
	}
	for _, set := range sets {
		if slices.ContainsFunc(set, func(m member) bool { return m.outcome == 'b' }) {
			left = append(left, set)
		}
	}
	ok := eachReported(reply, len(all), func(i int, holds string, was []byte, until time.Time) {
		m := all[i]
		if holds != "" {
			holds = c.Servers.Redact(holds)
			if m.Type != recordKind {
				holds = fmt.Sprintf("a %s by now, and held a %s", holds, m.Type)
			}
			c.fail(&store.ForeignError{StoreKey: m.StoreKey, Holds: holds})
			return
		}
		if _, form := valueOf(m.Member); form == 't' && m.Type != recordKind {
			was = dumpText(was)
		}
		m.late = &admin.Member{StoreKey: m.StoreKey, Type: m.Type, Dump: was, Expires: until}
	})
	if !ok {
		return nil, c.Refuse(c.verb, true)
	}
	return left, nil
}

// deleted returns how many records were deleted, and those that held something else than what the caller has kept, as they were.
func (c *changing) deleted() (deleted int, changed []admin.Record) {
	type fate struct{ some, new bool }
	fates := make([]fate, len(c.records))
	for i := range c.members {
		m := &c.members[i]
		isNew := m.late != nil || m.outcome != '1' && m.outcome != 0 && m.Dump != nil
		m.ofRecords(func(record int) {
			f := &fates[record]
			f.some, f.new = f.some || m.outcome == '1', f.new || isNew
		})
	}
	held := map[int][]admin.Member{} // what was deleted, or may be, of records that have changed
	for i := range c.members {
		m := &c.members[i]
		was := cmp.Or(m.late, m.Member)
		if m.outcome != '1' && m.outcome != 0 {
			continue
		}
		m.ofRecords(func(record int) {
			if fates[record].some && fates[record].new {
				held[record] = append(held[record], *was)
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

// Import implements [admin.Keyspace]. A large hash or set has its members in no order, so that one which is there already can
// seem to be in use. A member that a newer server has dumped, and this one cannot read, is a [store.ErrRefused]. A record of
// another limiter with a store key that limitctl keeps something of its own under is left, with an [admin.UnfitError].
func (k *Keyspace) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	outcomes := make([]admin.ImportOutcome, len(records))
	var errs []error
	members, ends := make([]admin.Member, 0, len(records)), make([]int, len(records))
	for i := range records {
		sound, err := k.layout.sound(members, &records[i])
		if unfit := (*admin.UnfitError)(nil); errors.As(err, &unfit) {
			outcomes[i], errs = admin.Unfit, append(errs, err)
		} else if err != nil {
			return nil, err
		} else {
			members = sound
		}
		ends[i] = len(members)
	}
	overwrites := "0"
	if replace {
		overwrites = "1"
	}
	err := k.change(ctx, records, members, ends, func(first int, c *changing) error {
		c.verb, c.script, c.first = "import", lua.Import, []any{overwrites}
		err := c.eachCall(ctx, func(sets [][]member) error { return c.importSets(ctx, sets, outcomes[first:]) })
		if err == nil && len(c.errs) > 0 {
			err = c.errs[0]
		}
		return err
	})
	if len(errs) == 0 {
		return outcomes, err // as it is: it may be several errors
	}
	return outcomes, errors.Join(append(errs, err)...)
}

// importSets brings back sets by a script call. outcomes are those of the records.
func (c *changing) importSets(ctx context.Context, sets [][]member, outcomes []admin.ImportOutcome) error {
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
	for i, m := range all {
		if reply[i] == 'v' {
			c.errs = append(c.errs, fmt.Errorf("%w: key %q was dumped by a newer server (format %d), and this one cannot read that; "+
				"restore it to a server as new as the one it is from", store.ErrRefused, m.StoreKey, versionOf(m.Dump)))
			continue
		}
		outcome, known := importOutcomes[reply[i]]
		if !known {
			return c.Refuse(c.verb, true)
		}
		m.ofRecords(func(record int) { outcomes[record] = combined(outcomes[record], outcome) })
	}
	return nil
}

// importOutcomes are the bytes of a reply of lua/import.lua. What became of the others says why a member was left with them.
var importOutcomes = map[byte]admin.ImportOutcome{'i': admin.Imported, 'a': admin.AlreadyThere, 'l': admin.Lapsed, 'u': admin.InUse,
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
