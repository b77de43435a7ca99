package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Import implements [admin.Keyspace]. The parts of a record that lie in one slot come back
// together or not at all. A large hash or set has its members in no order, so that one which is
// there already can seem to be in use. A part that a newer server has dumped, and this one cannot read, is a
// [store.ErrRefused]. Records are often read from a file, which anybody may have edited: one with
// a store key that limitctl keeps something of its own under is left, with an [admin.UnfitError].
func (f *foreignKeys) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	if err := f.store.lanes.Check(); err != nil {
		return nil, err
	}
	outcomes := make([]admin.ImportOutcome, len(records))
	var unfit []error
	var fit []admin.Record
	var places []int // of those that fit
	for i := range records {
		if err := f.checkForeign(&records[i]); err != nil {
			outcomes[i], unfit = admin.Unfit, append(unfit, &admin.UnfitError{Err: err})
			continue
		}
		fit, places = append(fit, records[i]), append(places, i)
	}
	imported, err := f.importFit(ctx, replace, fit)
	for i, outcome := range imported {
		outcomes[places[i]] = outcome
	}
	if len(unfit) == 0 {
		return outcomes, err // as it is: it may be several errors
	}
	return outcomes, errors.Join(append(unfit, err)...)
}

// importFit is Import for records that were checked.
func (f *foreignKeys) importFit(ctx context.Context, replace bool, records []admin.Record) ([]admin.ImportOutcome, error) {
	outcomes := make([]admin.ImportOutcome, len(records))
	err := f.exchanges(ctx, len(records), func(i int) int { return records[i].Size() }, func(first, end int) error {
		units, err := f.unitsOf(records[first:end])
		if err != nil {
			return err
		}
		var mu sync.Mutex
		var unread []error
		err = f.eachUnits(ctx, units, func(some []foreignUnit) error {
			reply, parts, err := f.importUnits(ctx, replace, some)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for i, part := range parts {
				if reply[i] == 'v' {
					unread = append(unread, f.cannotRead(part.Part))
					continue
				}
				outcome, known := importOutcome(reply[i])
				if !known {
					return f.store.lanes.Refuse("import", true)
				}
				for _, record := range part.records {
					outcomes[first+record] = combined(outcomes[first+record], outcome)
				}
			}
			return nil
		})
		if err == nil && len(unread) > 0 {
			err = unread[0]
		}
		return err
	})
	return outcomes, err
}

// checkForeign reports, as a [store.ErrInvalid], what makes a record unfit to be imported.
func (f *foreignKeys) checkForeign(r *admin.Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	if len(r.Parts) == 0 {
		return store.Invalidf("the record of key %q names no store keys", r.Key.Subject)
	}
	for i := range r.Parts {
		part := &r.Parts[i]
		if part.Field == "" && (!soundDump(part.Dump) || (part.Dump[0] == dumpString) != (part.Type == string(foreign.StringValue))) {
			return store.Invalidf("the value of key %q is damaged in the backup", part.StoreKey)
		}
		text, _ := dumpedText(part.Dump)
		held := foreign.Value{StoreKey: part.StoreKey, Type: foreign.ValueType(part.Type), Text: text}
		if f.isBeside(part.StoreKey) || foreign.IsOwn(&held) {
			return store.Invalidf("key %q is limitctl's own, and not another limiter's as the backup says", part.StoreKey)
		}
	}
	return nil
}

// importUnits brings back units by a script call, and returns what became of each of their parts.
func (f *foreignKeys) importUnits(ctx context.Context, replace bool, units []foreignUnit) (reply string, parts []foreignPart, err error) {
	parts, unitOf, storeKeys := flat(units)
	arguments := []any{"0"}
	if replace {
		arguments[0] = "1"
	}
	for i, part := range parts {
		value, isText := dumpedPart(part.Part)
		arguments = append(arguments, unitOf[i], part.Type, part.Field, append([]byte{mark(isText)}, value...), expiresMS(part.Expires))
	}
	cmd, err := f.run(ctx, "import", lua.ForeignImport, units, storeKeys, arguments)
	if err != nil {
		return "", nil, err
	}
	if reply, err = cmd.Text(); err != nil || len(reply) != len(parts) {
		return "", nil, f.store.lanes.Refuse("import", true)
	}
	return reply, parts, nil
}

// cannotRead says that the server does not take the dump of a part, which is sound.
func (f *foreignKeys) cannotRead(part *admin.Part) error {
	return fmt.Errorf("%w: key %q was dumped by a newer server (format %d), and this one cannot read that; restore it to a server "+
		"as new as the one it is from", store.ErrRefused, part.StoreKey, versionOf(part.Dump))
}

// importOutcome reads a byte of the reply of an import script.
func importOutcome(reply byte) (outcome admin.ImportOutcome, known bool) {
	switch reply {
	case 'i':
		return admin.Imported, true
	case 'a':
		return admin.AlreadyThere, true
	case 'l':
		return admin.Lapsed, true
	case 'u':
		return admin.InUse, true
	case 'f':
		return admin.Foreign, true
	case '-': // what became of the others says why
		return admin.NotKnown, true
	}
	return admin.NotKnown, false
}

// combined is what became of a record by what became of two of its parts: what was left counts
// more than what came back, and that more than what was there or had expired.
func combined(a, b admin.ImportOutcome) admin.ImportOutcome {
	for _, outcome := range []admin.ImportOutcome{admin.Foreign, admin.InUse, admin.Imported, admin.AlreadyThere} {
		if a == outcome || b == outcome {
			return outcome
		}
	}
	return max(a, b)
}
