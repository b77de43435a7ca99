package operation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Foreign is the values that an operation met and limitctl did not write.
type Foreign struct {
	count int
	first []error // the errors of the first few
	alike int     // how many hold the same as the very first
}

// keptForeign is how many errors of foreign values are kept.
const keptForeign = 5

// Count is how many there are.
func (f *Foreign) Count() int { return f.count }

func (f *Foreign) add(err error) {
	f.count++
	if len(f.first) < keptForeign {
		f.first = append(f.first, err)
	}
	if key, first := foreignErrorOf(err), foreignErrorOf(f.first[0]); key != nil && first != nil && key.Holds == first.Holds {
		f.alike++
	}
}

// take adds the foreign values among joined errors, and returns the other errors.
func (f *Foreign) take(err error) error {
	if !errors.Is(err, store.ErrForeign) {
		return err // as it is: it may be several errors without having been joined
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		f.add(err)
		return nil
	}
	var others []error
	for _, err := range joined.Unwrap() {
		others = append(others, f.take(err))
	}
	return errors.Join(others...)
}

// merge adds the values that a later step met. The scan and the change may both meet a
// value, which is reported once.
func (f *Foreign) merge(later *Foreign) {
	for _, err := range later.first {
		if !slices.ContainsFunc(f.first, func(e error) bool { return e.Error() == err.Error() }) {
			f.add(err)
		}
	}
	notKept := later.count - len(later.first)
	f.count += notKept
	if notKept > 0 && later.alike == later.count {
		if first := foreignErrorOf(f.first[0]); first != nil && first.Holds == foreignErrorOf(later.first[0]).Holds {
			f.alike += notKept
		}
	}
}

// Err is the foreign values as an error, nil if there are none. It is an
// [outcome.ErrPartly] if something else was done.
func (f *Foreign) Err(othersDone bool) error {
	if f.count == 0 {
		return nil
	}
	err := f.joined()
	if more := f.count - len(f.first); more > 0 && f.alike < f.count {
		err = fmt.Errorf("%w\nand %d more foreign values", err, more)
	}
	if othersDone {
		return outcome.Partly(err)
	}
	return err
}

// joined is the errors that were kept. Keys that hold the same are in one of them.
func (f *Foreign) joined() error {
	var errs []error
	var groups []*foreignKeys
	for _, err := range f.first {
		key := foreignErrorOf(err)
		at := slices.IndexFunc(groups, func(g *foreignKeys) bool { return key != nil && g.first.Holds == key.Holds })
		switch {
		case key == nil:
			errs = append(errs, err)
		case at >= 0:
			groups[at].storeKeys = append(groups[at].storeKeys, strconv.Quote(key.StoreKey))
		default:
			groups = append(groups, &foreignKeys{first: key, storeKeys: []string{strconv.Quote(key.StoreKey)}})
			errs = append(errs, groups[len(groups)-1])
		}
	}
	if f.alike == f.count && len(groups) == 1 {
		groups[0].more = f.count - len(f.first)
	}
	return errors.Join(errs...)
}

// foreignErrorOf is an error of one key, or nil.
func foreignErrorOf(err error) *store.ForeignError {
	var key *store.ForeignError
	errors.As(err, &key)
	return key
}

// isDamaged reports whether an error is of a damaged record of limitctl's own.
func isDamaged(err error) bool {
	key := foreignErrorOf(err)
	return key != nil && key.IsDamaged()
}

// foreignKeys is the error of several keys that hold the same.
type foreignKeys struct {
	first     *store.ForeignError
	storeKeys []string // quoted, that of first among them
	more      int      // keys that are not named
}

// Error is that of the first for one key, and names several in one sentence.
func (e *foreignKeys) Error() string {
	last := len(e.storeKeys) - 1
	switch {
	case e.more > 0:
		return fmt.Sprintf("keys %s and %s more hold %s; they were left as they are", strings.Join(e.storeKeys, ", "),
			output.Thousands(int64(e.more)), e.first.Holds)
	case last > 0:
		return fmt.Sprintf("keys %s and %s hold %s; they were left as they are", strings.Join(e.storeKeys[:last], ", "), e.storeKeys[last],
			e.first.Holds)
	}
	return e.first.Error()
}

// Unwrap returns the error of the first key.
func (e *foreignKeys) Unwrap() error { return e.first }

// Unsure is the keys that an operation met and that may be of a limiter.
type Unsure struct {
	Count int64
	// NeverExpire is how many of them may deny for ever, since they have no expiry.
	NeverExpire int64
	// First are the first few of them, those that may deny for ever before all others.
	First []*layouts.UnsureError
}

func (u *Unsure) add(key *layouts.UnsureError) {
	u.Count++
	at := len(u.First)
	if key.NeverExpires {
		u.NeverExpire++
		if expires := slices.IndexFunc(u.First, func(k *layouts.UnsureError) bool { return !k.NeverExpires }); expires >= 0 {
			at = expires
		}
	}
	if at < keptForeign {
		u.First = slices.Insert(u.First, at, key)
		u.First = u.First[:min(len(u.First), keptForeign)]
	}
}
