package keyspace

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
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

// member is a store key of one record, or of several that share it.
type member struct {
	*admin.Member
	records []int
	number  int // among all members of an exchange
}

// changing is the change of some records that go in one exchange.
type changing struct {
	*Keyspace
	verb    string
	script  *lua.Script
	records []admin.Record
	sets    [][]member
	members int // in all sets
	// argument is what the script gets about a member besides its kind, and kind says whether it also gets the expiry.
	argument func(m *member) []byte
	first    []any // arguments before those about members
	mu       sync.Mutex
	errs     []error // about single keys
}

// change calls do with changes of the records, as many at a time as one exchange can carry. members are those of each record.
func (k *Keyspace) change(
	ctx context.Context, records []admin.Record, members [][]admin.Member, do func(first int, c *changing) error,
) error {
	size := func(i int) int { return records[i].Size() }
	return k.exchanges(ctx, len(records), size, func(first, end int) error {
		sets, n := k.sets(members[first:end])
		return do(first, &changing{Keyspace: k, records: records[first:end], sets: sets, members: n})
	})
}

// sets returns the members of records, each once, in sets, and how many there are.
func (k *Keyspace) sets(members [][]admin.Member) (sets [][]member, all int) {
	type place struct{ set, at int }
	known := make(map[string]place, len(members))
	sets = make([][]member, 0, len(members))
	alone, index := make([]member, len(members)), make([]int, len(members)) // most records have one member
	for i := range index {
		index[i] = i
	}
	for i := range members {
		mine := len(sets) // the sets of this record begin here
		for j := range members[i] {
			m := &members[i][j]
			if at, has := known[m.StoreKey]; has {
				shared := &sets[at.set][at.at]
				shared.records = append(shared.records, i)
				continue
			}
			n := mine
			for n < len(sets) && !k.together(sets[n][0].StoreKey, m.StoreKey) {
				n++
			}
			if n == len(sets) {
				sets = append(sets, nil)
				if n == mine {
					sets[n] = alone[i : i : i+1]
				}
			}
			known[m.StoreKey] = place{n, len(sets[n])}
			sets[n] = append(sets[n], member{m, index[i : i+1 : i+1], len(known) - 1})
		}
	}
	return sets, len(known)
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
func (c *changing) call(ctx context.Context, sets [][]member) (*redis.Cmd, []member, error) {
	all := make([]member, 0, len(sets))
	storeKeys, arguments := make([]string, 0, len(sets)), append(make([]any, 0, 1+2*len(sets)), c.first...)
	for _, set := range sets {
		for n := range set {
			all, storeKeys = append(all, set[n]), append(storeKeys, set[n].StoreKey)
			arguments = append(arguments, c.kindOf(&set[n], n > 0), c.argument(&set[n]))
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

// recordWord is recordKind, as a command has it.
var recordWord any = recordKind

// kindOf is what the scripts get of a key, see lua/held.lua. A record is deleted whenever it expires.
func (c *changing) kindOf(m *member, with bool) any {
	if m.Type == recordKind && c.script == lua.Delete {
		return recordWord
	}
	at := int64(-1)
	if !m.Expires.IsZero() {
		at = m.Expires.UnixMilli()
	}
	kind := m.Type + " " + strconv.FormatInt(at, 10)
	if with {
		return "+" + kind
	}
	return kind
}

// valueOf is the value of a member as the scripts know it, and the byte that it begins with there: it is a text or a dump.
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
func keptValue(value []byte, form byte) []byte {
	const keptAsIs = 254 // whose length fits a byte with the form
	if len(value) <= keptAsIs {
		return append([]byte{form}, value...)
	}
	sum := sha1.Sum(value)
	return append([]byte{form - 'a' + 'A'}, hex.EncodeToString(sum[:])...)
}

// keptMember is keptValue of a member, and empty if its value was not kept.
func keptMember(m *member) []byte {
	if m.Dump == nil {
		return []byte{}
	}
	return keptValue(valueOf(m.Member))
}

// deletion is the deletion of some records.
type deletion struct {
	*changing
	// outcomes are the known outcomes of members, and late is what members held that the caller had not kept, by their number.
	outcomes []byte
	late     map[int]admin.Member
}

// Delete implements [admin.Keyspace] with a script that checks each value first. A record is deleted if any of its members was
// there. A member that several records share is deleted once, for all of them.
func (k *Keyspace) Delete(ctx context.Context, records ...admin.Record) (deleted int, changed []admin.Record, err error) {
	if err := k.Check(); err != nil {
		return 0, nil, err
	}
	members := make([][]admin.Member, len(records))
	for i := range records {
		if members[i], err = k.layout.members(&records[i]); err != nil {
			return 0, nil, err
		}
	}
	var errs []error
	err = k.change(ctx, records, members, func(_ int, c *changing) error {
		c.verb, c.script, c.argument = "deletion", lua.Delete, keptMember
		d := &deletion{c, make([]byte, c.members), map[int]admin.Member{}}
		err := c.eachCall(ctx, func(sets [][]member) error { return d.call(ctx, sets) })
		gone, some := d.result()
		deleted, changed, errs = deleted+gone, append(changed, some...), append(errs, c.errs...)
		return err
	})
	return deleted, changed, errors.Join(append(errs, err)...)
}

// call deletes sets by a script call, and by more where the values are too large for one answer.
func (d *deletion) call(ctx context.Context, sets [][]member) error {
	left, err := d.callOnce(ctx, sets)
	for _, set := range left {
		again, err := d.callOnce(ctx, [][]member{set})
		if err != nil {
			return err
		}
		if len(again) > 0 {
			d.mu.Lock()
			d.errs = append(d.errs, &store.ForeignError{StoreKey: set[0].StoreKey, Holds: "by now more than a backup takes"})
			d.mu.Unlock()
		}
	}
	return err
}

// callOnce deletes sets, and returns those that were left since too much had to be returned.
func (d *deletion) callOnce(ctx context.Context, sets [][]member) (left [][]member, err error) {
	cmd, all, err := d.changing.call(ctx, sets)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply) == 0 || len(lanes.Text(reply[0])) != len(all) {
		return nil, d.Refuse(d.verb, true)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	outcomes := lanes.Text(reply[0])
	for n := 0; len(sets) > 0; n, sets = n+len(sets[0]), sets[1:] {
		isLeft := false
		for i, m := range sets[0] {
			d.outcomes[m.number] = outcomes[n+i]
			isLeft = isLeft || outcomes[n+i] == 'b'
		}
		if isLeft {
			left = append(left, sets[0])
		}
	}
	ok := eachReported(reply, len(all), func(i int, holds string, was []byte, until time.Time) {
		m := all[i]
		if holds != "" {
			holds = d.Servers.Redact(holds)
			if m.Type != recordKind {
				holds = fmt.Sprintf("a %s by now, and held a %s", holds, m.Type)
			}
			d.errs = append(d.errs, &store.ForeignError{StoreKey: m.StoreKey, Holds: holds})
			return
		}
		if m.Type == string(layouts.StringValue) {
			if _, form := valueOf(m.Member); form == 't' {
				was = dumpText(was)
			}
		}
		d.late[m.number] = admin.Member{StoreKey: m.StoreKey, Type: m.Type, Dump: was, Expires: until}
	})
	if !ok {
		return nil, d.Refuse(d.verb, true)
	}
	return left, nil
}

// result returns how many records were deleted, and those that held something else than what the caller has kept, as they were.
func (d *deletion) result() (deleted int, changed []admin.Record) {
	type fate struct{ some, new bool }
	fates := make([]fate, len(d.records))
	for _, set := range d.sets {
		for _, m := range set {
			outcome := d.outcomes[m.number]
			_, isLate := d.late[m.number]
			for _, record := range m.records {
				fates[record].some = fates[record].some || outcome == '1'
				fates[record].new = fates[record].new || isLate || outcome != '1' && outcome != 0 && m.Dump != nil
			}
		}
	}
	held := map[int][]admin.Member{} // what was deleted, or may be, of records that have changed
	for _, set := range d.sets {
		for _, m := range set {
			was, isLate := d.late[m.number]
			if outcome := d.outcomes[m.number]; outcome != '1' && outcome != 0 {
				continue
			} else if !isLate {
				was = *m.Member
			}
			for _, record := range m.records {
				if fates[record].some && fates[record].new {
					held[record] = append(held[record], was)
				}
			}
		}
	}
	for i := range fates {
		if fates[i].some {
			deleted++
		}
		if members, is := held[i]; is {
			changed = append(changed, d.layout.record(d.records[i], members))
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
	var fit []admin.Record
	var members [][]admin.Member
	var places []int // of those that fit
	for i := range records {
		sound, err := k.layout.sound(&records[i])
		if unfit := (*admin.UnfitError)(nil); errors.As(err, &unfit) {
			outcomes[i], errs = admin.Unfit, append(errs, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		fit, members, places = append(fit, records[i]), append(members, sound), append(places, i)
	}
	overwrites := "0"
	if replace {
		overwrites = "1"
	}
	err := k.change(ctx, fit, members, func(first int, c *changing) error {
		c.verb, c.script, c.first = "import", lua.Import, []any{overwrites}
		c.argument = func(m *member) []byte {
			value, form := valueOf(m.Member)
			return append([]byte{form}, value...)
		}
		err := c.eachCall(ctx, func(sets [][]member) error { return c.importSets(ctx, sets, outcomes, places[first:]) })
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

// importSets brings back sets by a script call. The outcome of a record is in its place.
func (c *changing) importSets(ctx context.Context, sets [][]member, outcomes []admin.ImportOutcome, places []int) error {
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
		for _, record := range m.records {
			outcomes[places[record]] = combined(outcomes[places[record]], outcome)
		}
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
