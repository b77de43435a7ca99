package keyspace

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Import implements [admin.Keyspace]. The parts of a record that lie in one slot come back
// together or not at all. A large hash or set has its members in no order, so that one which is
// there already can seem to be in use. A part that a newer server has dumped, and this one cannot read, is a
// [store.ErrRefused]. Records are often read from a file, which anybody may have edited: one with
// a store key that limitctl keeps something of its own under is left, with an [admin.UnfitError].
func (f *Others) Import(ctx context.Context, replace bool, records ...admin.Record) ([]admin.ImportOutcome, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	outcomes := make([]admin.ImportOutcome, len(records))
	var unfit []error
	var fit []admin.Record
	var places []int // of those that fit
	for i := range records {
		if err := f.checkRecord(&records[i]); err != nil {
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
func (f *Others) importFit(ctx context.Context, replace bool, records []admin.Record) ([]admin.ImportOutcome, error) {
	outcomes := make([]admin.ImportOutcome, len(records))
	err := f.exchanges(ctx, len(records), func(i int) int { return records[i].Size() }, func(first, end int) error {
		sets, err := f.setsOf(records[first:end])
		if err != nil {
			return err
		}
		var mu sync.Mutex
		var unread []error
		err = f.eachSets(ctx, sets, func(some []memberSet) error {
			reply, parts, err := f.importSets(ctx, replace, some)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for i, part := range parts {
				if reply[i] == 'v' {
					unread = append(unread, f.cannotRead(part.Member))
					continue
				}
				outcome, known := importOutcome(reply[i])
				if !known {
					return f.Refuse("import", true)
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

// checkRecord reports, as a [store.ErrInvalid], what makes a record unfit to be imported.
func (f *Others) checkRecord(r *admin.Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	if len(r.Members) == 0 {
		return store.Invalidf("the record of key %q names no store keys", r.Key.Subject)
	}
	for i := range r.Members {
		part := &r.Members[i]
		if !soundDump(part.Dump) || (part.Dump[0] == dumpString) != (part.Type == string(layouts.StringValue)) {
			return store.Invalidf("the value of key %q is damaged in the backup", part.StoreKey)
		}
		text, _ := dumpedText(part.Dump)
		held := layouts.Value{StoreKey: part.StoreKey, Type: layouts.ValueType(part.Type), Text: text}
		if f.isBeside(part.StoreKey) || layouts.IsOwn(&held) {
			return store.Invalidf("key %q is limitctl's own, and not another limiter's as the backup says", part.StoreKey)
		}
	}
	return nil
}

// importSets brings back sets of members by a script call, and returns the outcome of each member.
func (f *Others) importSets(ctx context.Context, replace bool, sets []memberSet) (reply string, parts []member, err error) {
	parts, setOf, storeKeys := flat(sets)
	arguments := []any{importFlag(replace)}
	for i, part := range parts {
		value, isText := dumpedPart(part.Member)
		arguments = append(arguments, setOf[i], part.Type, append([]byte{mark(isText)}, value...), expiresMS(part.Expires))
	}
	cmd, err := f.run(ctx, "import", lua.ImportMembers, sets, storeKeys, arguments)
	if err != nil {
		return "", nil, err
	}
	if reply, err = cmd.Text(); err != nil || len(reply) != len(parts) {
		return "", nil, f.Refuse("import", true)
	}
	return reply, parts, nil
}

// cannotRead says that the server does not take the dump of a part, which is sound.
func (f *Others) cannotRead(part *admin.Member) error {
	return fmt.Errorf("%w: key %q was dumped by a newer server (format %d), and this one cannot read that; restore it to a server "+
		"as new as the one it is from", store.ErrRefused, part.StoreKey, versionOf(part.Dump))
}

// combined returns the outcome of a record from the outcomes of two of its parts: a part that was left
// outweighs one that came back, which outweighs one that was there or had expired.
func combined(a, b admin.ImportOutcome) admin.ImportOutcome {
	for _, outcome := range []admin.ImportOutcome{admin.Foreign, admin.InUse, admin.Imported, admin.AlreadyThere} {
		if a == outcome || b == outcome {
			return outcome
		}
	}
	return max(a, b)
}
