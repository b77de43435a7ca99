package published

import (
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Settings are the parts of a [Follower]. Functions can be nil, except for Use and Now.
type Settings struct {
	Table *admin.Tables
	// Use puts a version in force at one instant. After an error, which says why it cannot, the one before stays.
	Use func(v *Version) error
	// Cache keeps the record in force for a start without the store.
	Cache Cache
	// OnError gets the error of a look, once for each cause, and nil when looks succeed again.
	OnError func(error)
	// OnWarning gets what is wrong although a version is in force: the error if it cannot be kept, once that the
	// process cannot report, and that an earlier program tried another version.
	OnWarning func(error)
	// Process identifies this process for others. The follower fills in what is in force.
	Process Process
	Now     func() time.Time
	// Timeout bounds each exchange with the store.
	Timeout time.Duration
	// Compares: this process goes by a file, and Use says whether that is the same. It reports only if something is
	// published.
	Compares bool
}

// Follower keeps the published configuration in force in one process. It is for one goroutine, which calls Start and
// then Look.
type Follower struct {
	Settings
	// InForce is the version in force, nil for none, and Since is when it was put in force.
	InForce *Version
	Since   time.Time
	// Err says why the published version is not in force. It is a [*RefusedError] if the version cannot be used.
	Err error

	source poll.Source[following]

	id     string
	place  int
	mute   bool // OnWarning got the error of a report
	report struct {
		at   time.Time
		text string
	}
}

// RefusedError says why this process cannot use a version.
type RefusedError struct {
	Version int64
	Cause   error
}

// Error names the version.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("version %d cannot be used: %s", e.Version, e.Cause)
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Cause }

// Refused is the version that cannot be used, 0 for none.
func (f *Follower) Refused() int64 {
	if refused, is := errors.AsType[*RefusedError](f.Err); is {
		return refused.Version
	}
	return 0
}

// following is what a look finds: a head, and the record of its version unless that is in force already.
type following struct {
	Head
	record string
	err    error
}

// NewFollower returns a follower that has nothing in force.
func NewFollower(s Settings) *Follower {
	f := &Follower{Settings: s, place: -1, id: crypto.Text()[:idSize]}
	f.source = poll.Source[following]{Read: f.read, Apply: f.apply}
	return f
}

// Start puts the published version in force; if the store is away or has none, the one that was kept. It returns an
// error if there is neither, or the process can use neither.
func (f *Follower) Start(ctx context.Context) error {
	err := f.Look(ctx)
	if f.InForce != nil {
		return nil
	}
	if v, broken := readVersion(f.Cache.record()); broken == nil && f.use(v) == nil {
		f.reports(ctx)
		return nil
	}
	return err
}

// Look looks once whether another version is in force, by one small read, and reports now and then. It returns why the
// published version is not in force in this process, nil if it is.
func (f *Follower) Look(ctx context.Context) error {
	applied, err := f.source.Look(ctx, false)
	switch {
	case err != nil && ctx.Err() != nil: // the process ends
		return err
	case err != nil || applied && f.Err != nil:
		if f.Err = err; f.OnError != nil {
			f.OnError(err)
		}
	}
	f.reports(ctx)
	return f.Err
}

// Again makes the next look use the version again, such as after a change of what it is compared with.
func (f *Follower) Again() { f.source.Seen, f.InForce = "", nil }

// read reads the head, and the record of its version if that is another one.
func (f *Follower) read(ctx context.Context) (next following, text string, err error) {
	ctx, cancel := store.BudgetContext(ctx, f.Timeout)
	defer cancel()
	text, err = f.Table.Value(ctx, admin.ConfigTable, "")
	switch {
	case err == nil && text == "":
		err = ErrNothing
	case err == nil && text != f.source.Seen:
		next.Head, err = readHead(text)
	}
	if v := f.InForce; err != nil || text == f.source.Seen || v != nil && next.names(v) {
		return next, text, err
	}
	next.record, err = next.Head.record(ctx, f.Table)
	// it is large, and not read again
	if _, missing := errors.AsType[*RefusedError](err); !missing && errors.Is(err, store.ErrForeign) {
		next.err, err = err, nil
	}
	return next, text, err
}

// apply puts the version of a head in force.
func (f *Follower) apply(next following) error {
	err := next.err
	if next.record != "" {
		var v *Version
		if v, err = next.read(next.record); err == nil {
			err = f.use(v)
		}
	}
	if err != nil {
		if f.Compares {
			f.InForce = nil
		}
		return &RefusedError{next.Version, err}
	}
	// If it is not kept, the version is in force all the same.
	if err := f.Cache.keep(next.record); err != nil && f.OnWarning != nil {
		f.OnWarning(fmt.Errorf("version %d is in force, and cannot be kept for a start without the store: %w",
			f.InForce.Number, err))
	}
	if warning := next.TriedWarning(); warning != nil && f.OnWarning != nil {
		f.OnWarning(warning)
	}
	return nil
}

// use puts a version in force. A panic is a reason not to, as an error is.
func (f *Follower) use(v *Version) error {
	err := panics.Call(func() error { return f.Use(v) })
	if err == nil {
		f.InForce, f.Since = v, f.Now()
	}
	return err
}
