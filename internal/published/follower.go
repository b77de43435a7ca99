package published

import (
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Settings are the parts of a [Follower]. Functions can be nil, except for Use and Now.
type Settings struct {
	Table *admin.Tables
	// Use puts a version in force, all of its limits at one instant. Its error says why this process cannot use it; then
	// what was before stays in force.
	Use func(v *Version) error
	// Keep keeps the record of the version in force for a start without the store, and Kept returns it. An error of
	// Kept means that there is none.
	Keep func(record string) error
	Kept func() (string, error)
	// OnError gets the error of a look, once for each cause, and nil when looks succeed again.
	OnError func(error)
	// OnWarning gets what is wrong although a version is in force: the error if Keep fails, once until it succeeds (Keep is
	// tried again with each report); once that the process cannot report; and that an earlier program tried another version.
	OnWarning func(error)
	// Process identifies this process for others. The follower fills in what is in force.
	Process Process
	Now     func() time.Time
	// Timeout bounds each exchange with the store.
	Timeout time.Duration
}

// Follower keeps the published configuration in force in one process. Its owner calls Start and then Look, from one
// goroutine; State can be called from any.
type Follower struct {
	Settings
	id     string
	place  int
	done   string // the head that was dealt with
	wrong  error  // why its version cannot be used; nil if it is in force
	told   string // the error that OnError got
	mute   bool   // OnWarning got the error of a report
	unkept string // the record of the version in force, until it is kept; empty if there is nothing to keep
	warned bool   // OnWarning got that error
	report struct {
		at   time.Time
		text string
	}

	mu    sync.Mutex
	state FollowerState
}

// FollowerState is what a follower knows.
type FollowerState struct {
	// InForce is the version in force, nil for none, and Since is when it was put in force.
	InForce *Version
	Since   time.Time
	// Refused is a version that cannot be used, 0 for none, and Err why; Err alone says why the store cannot be read.
	Refused int64
	Err     error
}

// NewFollower returns a follower that has nothing in force.
func NewFollower(s Settings) *Follower {
	return &Follower{Settings: s, place: -1, id: crypto.Text()[:idSize]}
}

// State returns what is known.
func (f *Follower) State() FollowerState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Start puts the published version in force; if the store is away or has none, the one that was kept. It returns an
// error if there is neither, or the process can use neither.
func (f *Follower) Start(ctx context.Context) error {
	err := f.Look(ctx)
	if f.State().InForce != nil {
		return nil
	}
	if f.Kept != nil {
		if record, keptErr := f.Kept(); keptErr == nil {
			if v, keptErr := readVersion(record); keptErr == nil && f.use(v) == nil {
				f.reports(ctx)
				return nil
			}
		}
	}
	return err
}

// Look looks once whether another version is in force, by one small read, and reports now and then. It returns why the
// published version is not in force in this process, nil if it is.
func (f *Follower) Look(ctx context.Context) error {
	err := panics.Call(func() error { return f.look(ctx) })
	if ctx.Err() != nil {
		return err // the process ends
	}
	f.mu.Lock()
	f.state.Err = err
	f.mu.Unlock()
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != f.told && f.OnError != nil {
		f.OnError(err)
	}
	f.told = text
	f.reports(ctx)
	return err
}

func (f *Follower) look(ctx context.Context) error {
	ctx, cancel := store.BudgetContext(ctx, f.Timeout)
	defer cancel()
	text, err := f.Table.Value(ctx, admin.ConfigTable, "")
	switch {
	case err != nil:
		return err
	case text == "":
		f.done = ""
		return ErrNothing
	case text == f.done:
		return f.wrong
	}
	head, err := readHead(text)
	if err != nil {
		return err
	}
	inForce := f.State().InForce
	v, record, err := f.fetch(ctx, &head, inForce)
	if err == nil && v != inForce {
		err = f.use(v)
	}
	if err != nil {
		return f.cannot(text, head.Version, err)
	}
	if record != "" {
		f.unkept = record
	}
	f.refuse(0)
	f.done, f.wrong = text, nil
	if warning := head.TriedWarning(); warning != nil && f.OnWarning != nil {
		f.OnWarning(warning)
	}
	return nil
}

// readError says that a version could not be read. It may be otherwise the next time.
type readError struct{ error }

// Unwrap returns the cause.
func (e *readError) Unwrap() error { return e.error }

// errMissing: the store lacks a version. It costs little to look for it again.
var errMissing = &readError{fmt.Errorf("%w: the store does not have it", store.ErrForeign)}

// fetch returns the version that a head names: the one that is known, or it reads its record. An error that is no
// [*readError] stays until another version is named.
func (f *Follower) fetch(ctx context.Context, head *Head, known *Version) (v *Version, record string, err error) {
	if known != nil && known.Number == head.Version && known.Hash == head.Hash {
		return known, "", nil
	}
	record, err = f.Table.Value(ctx, admin.ConfigTable, strconv.FormatInt(head.Version, 10))
	switch {
	case err != nil && !errors.Is(err, store.ErrForeign):
		return nil, "", &readError{err}
	case err != nil:
		return nil, "", err
	case record == "":
		return nil, "", errMissing
	}
	v, err = readVersion(record)
	if err == nil && (v.Number != head.Version || v.Hash != head.Hash) {
		err = broken("record", "it is of another version than the head says")
	}
	return v, record, err
}

// cannot returns why a version of a head cannot be used. What is wrong with the version is not looked at again.
func (f *Follower) cannot(text string, number int64, err error) error {
	read := new(readError)
	if errors.As(err, &read) && read != errMissing {
		return read.error
	}
	f.refuse(number)
	wrong := fmt.Errorf("version %d cannot be used: %w", number, err)
	if read != errMissing {
		f.done, f.wrong = text, wrong
	}
	return wrong
}

// keep keeps the version in force, if that is not done yet. Without it the version is in force all the same.
func (f *Follower) keep() {
	if f.Keep == nil || f.unkept == "" {
		return
	}
	err := panics.Call(func() error { return f.Keep(f.unkept) })
	if err == nil {
		f.unkept, f.warned = "", false
		return
	}
	if !f.warned && f.OnWarning != nil {
		f.OnWarning(fmt.Errorf("version %d is in force, and cannot be kept for a start without the store: %w",
			f.State().InForce.Number, err))
	}
	f.warned = true
}

// use puts a version in force. A panic is a reason not to, as an error is.
func (f *Follower) use(v *Version) error {
	if err := panics.Call(func() error { return f.Use(v) }); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.InForce, f.state.Since, f.state.Refused = v, f.Now(), 0
	return nil
}

func (f *Follower) refuse(number int64) {
	f.mu.Lock()
	f.state.Refused = number
	f.mu.Unlock()
}
