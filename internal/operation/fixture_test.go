package operation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/progress"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var tenAnHour = store.Limit{Count: 10, Period: time.Hour}

// errNo is the answer of a watcher that says no.
var errNo = errors.New("no")

// watcher is an Observer that remembers all it is told, and answers what it was set to.
type watcher struct {
	selected  ResetResult // as it was then
	questions []Question
	// answer is what Confirm returns.
	answer error
	// onSelected and onConfirm, if set, are called at that point.
	onSelected, onConfirm func()
	interrupts            bool // at the question
}

func (w *watcher) Begin(string, string) *progress.Bar { return nil }

func (w *watcher) Selected(r *ResetResult) {
	w.selected = *r
	if w.onSelected != nil {
		w.onSelected()
	}
}

func (w *watcher) Confirm(ctx context.Context, q Question) error {
	w.questions = append(w.questions, q)
	if w.onConfirm != nil {
		w.onConfirm()
	}
	return errors.Join(w.answer, ctx.Err())
}

// memoryLog is an audit log that is kept in memory.
type memoryLog struct {
	begun              []auditlog.Entry // those that say that a run begins
	entries            []auditlog.Entry // those of outcomes, without the name of the run and when it began
	opened, closed     int
	openErr            error
	beginFail, endFail error
}

func (m *memoryLog) open() (auditlog.Writer, error) {
	if m.openErr != nil {
		return nil, m.openErr
	}
	m.opened++
	return m, nil
}

func (m *memoryLog) Write(e *auditlog.Entry) error {
	if e.Outcome == auditlog.Begun {
		m.begun = append(m.begun, *e)
		return m.beginFail
	}
	outcome := *e
	if last := len(m.begun) - 1; last < 0 || m.begun[last].Run != e.Run || e.Run == "" ||
		!m.begun[last].Began.Equal(e.Began) {
		return errors.New("an outcome of a run that has not begun")
	}
	outcome.Run, outcome.Began = "", time.Time{}
	m.entries = append(m.entries, outcome)
	return m.endFail
}

func (m *memoryLog) Close() error { m.closed++; return nil }

// site is a place to run operations in, with all that they leave behind.
type site struct {
	*Runner
	memory *memorystore.Store
	log    *memoryLog
	dir    string
	// now is the time of the runner; the store has its own.
	now time.Time
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{memory: memorystore.New(), log: &memoryLog{}, dir: t.TempDir(), now: time.Unix(1_800_000_000, 0)}
	s.Runner = &Runner{
		Store:        s.memory,
		Place:        Place{Store: "memory", Prefix: "rl"},
		Address:      "memory",
		Timeout:      time.Minute,
		Now:          func() time.Time { return s.now },
		User:         "night",
		OpenAuditLog: s.log.open,
		Describe:     func(err error) string { return "described: " + err.Error() },
	}
	return s
}

// key is the key of a subject.
func key(subject any) store.Key { return store.Key{Subject: fmt.Sprint(subject), Name: "n"} }

// take takes units of a subject's key.
func (s *site) take(t *testing.T, subject any, cost int64) {
	t.Helper()
	if d, err := storecall.New(s.memory).Take(t.Context(), key(subject), tenAnHour, cost); err != nil || !d.Allowed {
		t.Fatalf("%v takes %d: %+v, %v", subject, cost, d, err)
	}
}

// used returns how many units of a subject's key are in use.
func (s *site) used(t *testing.T, subject any) int64 {
	t.Helper()
	d := must(storecall.New(s.memory).Peek(t.Context(), key(subject), tenAnHour, 1))
	return d.Used
}

// inUse returns how many keys are in use.
func (s *site) inUse(t *testing.T) (n int64) {
	t.Helper()
	for _, err := range s.memory.Scan(t.Context(), everything(t).Query) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// everything selects all keys.
func everything(t *testing.T) Selection {
	t.Helper()
	all := must(store.ParsePattern("*"))
	return Selection{Query: admin.Query{Subjects: all}, Text: "'*'"}
}

// planToReset resets all keys after a question, with a backup in the site's directory.
func (s *site) planToReset(t *testing.T) *ResetPlan {
	t.Helper()
	return &ResetPlan{Selection: everything(t), Text: "'*' in words", Backup: &BackupPlan{
		Path: filepath.Join(s.dir, "backup.jsonl")}}
}

// left returns the names of the files in the site's directory.
func (s *site) left(t *testing.T) (names []string) {
	t.Helper()
	entries := must(os.ReadDir(s.dir))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// checkUntouched sees that an operation left nothing behind.
func (s *site) checkUntouched(t *testing.T, keys int64) {
	t.Helper()
	if n := s.inUse(t); n != keys {
		t.Errorf("%d keys are left of %d", n, keys)
	}
	if names := s.left(t); len(names) > 0 {
		t.Errorf("it left the files %q", names)
	}
	if len(s.log.begun)+len(s.log.entries) > 0 || s.log.opened != s.log.closed {
		t.Errorf("the audit log was opened %d times and closed %d times, and has %+v", s.log.opened, s.log.closed,
			s.log.entries)
	}
}

// brokenStore is a store whose changes can be made to fail.
type brokenStore struct {
	connect.Store
	// These, if set, are called instead, with the store's own method to call.
	delete    func(do deleting, records []admin.Record) (int, []admin.Record, error)
	adjust    func(do adjusting, adjustments []admin.Adjustment) ([]admin.Adjusted, error)
	importing func(do importing, records []admin.Record) ([]admin.ImportOutcome, error)
}

type (
	deleting  func(...admin.Record) (int, []admin.Record, error)
	adjusting func(...admin.Adjustment) ([]admin.Adjusted, error)
	importing func(...admin.Record) ([]admin.ImportOutcome, error)
)

func (b *brokenStore) Delete(ctx context.Context, records ...admin.Record) (int, []admin.Record, error) {
	do := func(records ...admin.Record) (int, []admin.Record, error) {
		if ctx.Err() != nil { // as a store does that needs time
			return 0, nil, ctx.Err()
		}
		return b.Store.Delete(ctx, records...)
	}
	if b.delete == nil {
		return do(records...)
	}
	return b.delete(do, records)
}

func (b *brokenStore) Import(ctx context.Context, replace bool, records ...admin.Record) (
	[]admin.ImportOutcome, error) {
	do := func(records ...admin.Record) ([]admin.ImportOutcome, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return b.Store.Import(ctx, replace, records...)
	}
	if b.importing == nil {
		return do(records...)
	}
	return b.importing(do, records)
}

func (b *brokenStore) Adjust(ctx context.Context, adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
	do := func(adjustments ...admin.Adjustment) ([]admin.Adjusted, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return b.Store.Adjust(ctx, adjustments...)
	}
	if b.adjust == nil {
		return do(adjustments...)
	}
	return b.adjust(do, adjustments)
}

// brokenOverrides is a store that sets no override, and does not revoke one of them.
type brokenOverrides struct {
	connect.Store
	admin.Tables
}

// unsettable is its table.
type unsettable struct {
	admin.SideTable
	fails string // the ID of that one
}

func (u unsettable) Change(ctx context.Context, c *admin.Change) (bool, error) {
	if c.Table == admin.OverrideTable && (len(c.Drop) == 0 || c.Drop[0] == u.fails) {
		return false, store.ErrUnavailable
	}
	return u.SideTable.Change(ctx, c)
}

// must returns what a call returned that cannot fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
