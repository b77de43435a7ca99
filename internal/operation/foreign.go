package operation

import (
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Foreign is the values that an operation met and limitctl did not write.
type Foreign struct {
	count int
	first []error // the errors of the first few
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

// Err is the foreign values as an error, nil if there are none. It is an
// [outcome.ErrPartly] if something else was done.
func (f *Foreign) Err(othersDone bool) error {
	if f.count == 0 {
		return nil
	}
	err := errors.Join(f.first...)
	if more := f.count - len(f.first); more > 0 {
		err = fmt.Errorf("%w\nand %d more foreign values", err, more)
	}
	if othersDone {
		return outcome.Partly(err)
	}
	return err
}

// isDamaged reports whether an error is of a damaged record of limitctl's own.
func isDamaged(err error) bool {
	var key *store.ForeignError
	return errors.As(err, &key) && key.IsDamaged()
}

// Unsure is the keys that an operation met and that may be of a limiter, in JSON too.
type Unsure struct {
	Count int64 `json:"count"`
	// First are the first few of them.
	First []UnsureKey `json:"first"`
	// NoTTL is how many of them have no expiry, and may deny for ever.
	NoTTL int64 `json:"no_ttl"`
}

// UnsureKey is one of them: it may be of any of Layouts, unless Wrong is set.
type UnsureKey struct {
	StoreKey string   `json:"store_key"`
	Layouts  []string `json:"layouts"`
	Defect   string   `json:"defect,omitempty"` // its defect if it is of the layout
	Wrong    string   `json:"wrong,omitempty"`  // what none of the layouts writes
	NoTTL    bool     `json:"no_ttl"`
	// Text is all of it for people.
	Text string `json:"-"`
}

func (u *Unsure) add(key *layouts.UnsureError) {
	u.Count++
	if key.NeverExpires {
		u.NoTTL++
	}
	if len(u.First) < keptForeign {
		u.First = append(u.First, UnsureKey{StoreKey: key.StoreKey,
			Layouts: key.Layouts, Defect: key.Defect, Wrong: key.Wrong, NoTTL: key.NeverExpires, Text: key.Error()})
	}
}
