package layers_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// denyingStore denies with decision, or answers with decisions, and has a table of denials that fails with err. It
// records what was written when.
type denyingStore struct {
	admin.Tables
	decision  store.Decision
	decisions []store.Decision

	mu     sync.Mutex
	err    error
	hangs  bool // until its time is over
	writes []admin.Denials
	at     []time.Time
	closed int
}

func (s *denyingStore) Decide(_ context.Context, _ store.Op, reqs []store.Request, decisions []store.Decision) error {
	for i := range decisions {
		decisions[i] = s.decision
		decisions[i].Shadow = reqs[i].Shadow
	}
	copy(decisions, s.decisions)
	return nil
}

func (s *denyingStore) Close() error { s.closed++; return nil }

// denying gives s its table.
func denying(s *denyingStore) *denyingStore {
	s.SideTable = denyingSide{denyingStore: s}
	return s
}

type denyingSide struct {
	admin.SideTable
	*denyingStore
}

func (s denyingSide) AddCounts(ctx context.Context, d *admin.Denials) error {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	hangs := s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, *d)
	if s.err == errPanic {
		panic("a bug of the table")
	}
	return s.err
}

var errPanic = errors.New("panic")

func (s *denyingStore) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.hangs, s.writes, s.at = err, false, nil, nil
}

// sum returns the written denials by subject, and those of others.
func (s *denyingStore) sum() (bySubject map[string]int64, others int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bySubject = map[string]int64{}
	for _, d := range s.writes {
		others += d.Others
		for _, row := range d.Rows {
			bySubject[row.Key.Subject] += row.Count
		}
	}
	return bySubject, others
}

// written returns what was written so far.
func (s *denyingStore) written() []admin.Denials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

func total(counts map[string]int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func deny(t *testing.T, backend store.Store, subject string, times int) {
	t.Helper()
	for range times {
		ask(t, backend, store.Key{Subject: subject}, store.Limit{Count: 1, Period: time.Hour}, 1)
	}
}

// pass lets virtual time pass, and the work in the background end.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestDenialsAreWrittenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := denying(&denyingStore{})
		backend := withDenialLog(table)
		pass(time.Minute)
		if len(table.at) != 0 {
			t.Fatalf("%d writes, and nothing was denied", len(table.at))
		}
		begun := time.Now()
		for range 70 { // five seconds
			deny(t, backend, "often", 3)
			deny(t, backend, "once in a while", 1)
			pass(70 * time.Millisecond) // so that it never falls on a write
		}
		pass(time.Hour)
		for i, at := range table.at {
			if since := at.Sub(begun); since < time.Duration(i+1)*time.Second {
				t.Errorf("write %d after %s", i, since)
			}
		}
		if n := len(table.at); n < 4 || n > 6 {
			t.Errorf("%d writes of what was denied in five seconds", n)
		}
		if sum, others := table.sum(); sum["often"] != 210 || sum["once in a while"] != 70 || others != 0 {
			t.Errorf("written: %v and %d others", sum, others)
		}
		first := table.written()[0]
		if row := first.Rows[0]; row.Key.Name != "token-bucket/1h" || first.Now-row.LastAt != 20_000 {
			t.Errorf("the first row of %+v was denied 20 ms before", first)
		}
	})
}

// With far more keys than have counts all denials are counted, also those while the store was away.
func TestDenialsAreBounded(t *testing.T) {
	for _, isAway := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table := denying(&denyingStore{})
			if isAway {
				table.set(store.ErrUnavailable)
			}
			backend := withDenialLog(table)
			const second = 4_000
			for i := range 10 * second {
				deny(t, backend, fmt.Sprintf("rare:%d", i), 1)
				if i%100 == 0 {
					deny(t, backend, "often", 1)
				}
				if i%second == 0 {
					pass(time.Second)
				}
				if i == 5*second && isAway {
					table.set(nil)
				}
			}
			backend.Close()
			sum, others := table.sum()
			const often = 10 * second / 100
			if all := total(sum) + others; all != 10*second+often || sum["often"] < often*9/10 ||
				sum["often"] > often || others == 0 {
				t.Errorf("away %t: %d are written, %d others; often %d", isAway, all, others, sum["often"])
			}
			for _, d := range table.written() {
				if len(d.Rows) > admin.MaxDenialRows {
					t.Errorf("a write of %d rows", len(d.Rows))
				}
			}
		})
	}
}

func TestDenialsOfAnOutageAreWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := denying(&denyingStore{hangs: true})
		var told []string
		recovered := 0
		backend := observedDenialLog(table, &layers.Observer{OnDenialLog: func(err error) {
			if err == nil {
				recovered++
				return
			}
			told = append(told, err.Error())
		}})
		goroutines := runtime.NumGoroutine()
		begun := time.Now()
		for range 600 {
			before := time.Now()
			deny(t, backend, "user:42", 1)
			if waited := time.Since(before); waited > 0 {
				t.Fatalf("a decision waited %s", waited)
			}
			pass(time.Second)
			if n := runtime.NumGoroutine(); n > goroutines+3 {
				t.Fatalf("%d goroutines, %d before", n, goroutines)
			}
		}
		if n := len(table.at); n < 90 || n > 110 { // each takes a second, and five later is the next
			t.Errorf("%d tries in %s", n, time.Since(begun))
		}
		if len(told) != 1 || !strings.Contains(told[0], "denials cannot be written: store unavailable") {
			t.Errorf("told %q", told)
		}
		table.set(nil)
		pass(time.Minute)
		deny(t, backend, "user:42", 1)
		pass(2 * time.Second)
		if recovered != 1 {
			t.Errorf("told %d times that it works again", recovered)
		}
		if sum, others := table.sum(); sum["user:42"] != 601 || others != 0 {
			t.Errorf("after the outage %v, %d others", sum, others)
		}
		table.set(store.ErrUnavailable) // another outage is reported again
		deny(t, backend, "user:42", 1)
		pass(2 * time.Second)
		if len(told) != 2 {
			t.Errorf("told %q", told)
		}
		table.set(nil)
		backend.Close()
	})
}

// Who waits for a turn is denied once, if it does not come, however often the store is asked.
func TestAWaitIsDeniedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := memorystore.New()
		collector := layers.CollectDenials(table, nil)
		w := &layers.Waiter{Store: layers.Stack(table, layers.Layers{DenialLog: collector})}
		for i, wait := range []time.Duration{time.Second, time.Minute, time.Second} {
			decisions, err := w.TakeWithin(t.Context(), wait, asking("u", "fixed-window:1/1m", 1))
			if err != nil || store.AllAllowed(decisions) != (i < 2) {
				t.Errorf("wait %d: %v, %v", i, decisions, err)
			}
		}
		collector.Close()
		tables, _ := admin.TablesOf(table)
		counted, err := tables.Denials(t.Context(), time.Hour)
		if err != nil || len(counted.Rows) != 1 || counted.Rows[0].Count != 1 {
			t.Errorf("%+v, %v", counted.Rows, err)
		}
	})
}

// A row says since when and under which limit, and compares with what went through between the denials. All that a
// write that failed had is in the next one.
func TestARowOfDenialsSaysHow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := denying(&denyingStore{err: store.ErrUnavailable})
		backend := withDenialLog(table)
		twice := &store.Override{ID: "8e2kd01x", Effect: store.OverrideTimes, Thousandths: 2000}
		decided := func(d store.Decision, times int) {
			t.Helper()
			table.decision = d
			deny(t, backend, "user:42", times)
		}
		decided(store.Decision{Allowed: true}, 3) // before the first denial
		begun := time.Now()
		decided(store.Decision{}, 1)
		pass(200 * time.Millisecond)
		decided(store.Decision{Allowed: true}, 5)
		decided(store.Decision{Allowed: true, Unguarded: true}, 50) // the limit did not let it through
		decided(store.Decision{Override: twice}, 2)
		decided(store.Decision{Allowed: true}, 7) // after the last denial
		check := func(want admin.Denied, last time.Time) {
			t.Helper()
			d := table.written()[len(table.written())-1]
			if len(d.Rows) != 1 {
				t.Fatalf("%+v, want one row", d)
			}
			row, now := d.Rows[0], time.Now()
			since := now.Add(-time.Duration(d.Now-row.Since) * time.Microsecond)
			lastAt := now.Add(-time.Duration(d.Now-row.LastAt) * time.Microsecond)
			if since.Sub(begun).Abs() > 2*time.Microsecond || lastAt.Sub(last).Abs() > 2*time.Microsecond {
				t.Errorf("since %s, want %s; last %s, want %s", since, begun, lastAt, last)
			}
			row.Since, row.LastAt, row.Key = 0, 0, store.Key{}
			if !reflect.DeepEqual(row, want) {
				t.Errorf("%+v, want %+v", row, want)
			}
		}
		last := time.Now()
		pass(800 * time.Millisecond)
		limit := store.Limit{Algorithm: store.TokenBucket, Count: 2, Burst: 2, Period: time.Hour}
		check(admin.Denied{Count: 3, Compared: 2, Allowed: 5, Limit: limit}, last)
		table.set(nil)
		decided(store.Decision{DecidedBy: store.DecidedByOverride, Override: twice}, 1) // it never fits twice the limit
		last = time.Now()
		pass(5 * time.Second)
		check(admin.Denied{Count: 4, Compared: 3, Allowed: 12, Limit: limit}, last)
		table.set(nil)
		pass(admin.DenialPause - 5*time.Second) // the longest of one run
		decided(store.Decision{}, 1)
		last = time.Now()
		pass(time.Second)
		limit.Count, limit.Burst = 1, 1
		check(admin.Denied{Count: 1, Compared: 1, Limit: limit}, last)
		pass(admin.DenialPause)
		begun, last = time.Now(), time.Now()
		decided(store.Decision{}, 1)
		pass(time.Second)
		check(admin.Denied{Count: 1, Limit: limit}, last)
	})
}

// However many addresses a block denies, they take one row, so that those whom limits deny have the others.
func TestABlockHasOneRow(t *testing.T) {
	block := &store.Override{ID: "b", Effect: store.OverrideBlock}
	table := denying(&denyingStore{decision: store.Decision{DecidedBy: store.DecidedByOverride, Override: block}})
	backend := layers.Stack(table, layers.Layers{DenialLog: layers.CollectDenials(table, nil)})
	for i := range 2000 {
		deny(t, backend, fmt.Sprint("ip:", i), 1)
	}
	backend.Close()
	if sum, others := table.sum(); len(sum) != 1 || total(sum) != 2000 || others != 0 {
		t.Errorf("%d rows of %d denials, %d others", len(sum), total(sum), others)
	}
}

// However many keys a shadow limit would have denied, those whom limits deny have their rows, and the sums are exact.
func TestShadowsLeaveRoomForDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := denying(&denyingStore{})
		backend := withDenialLog(table)
		for range 3 {
			for i := range 2000 {
				decide(t, backend, store.Take, store.Request{Key: store.Key{Subject: fmt.Sprint("ip:", i), Name: "n"},
					Limit: store.Limit{Count: 1, Period: time.Hour}, Cost: 1, Shadow: true})
				if i < 800 {
					deny(t, backend, fmt.Sprint("user:", i), 1)
				}
			}
			pass(10 * time.Second)
		}
		backend.Close()
		sum, others := table.sum()
		for i := range 800 {
			if n := sum[fmt.Sprint("user:", i)]; n != 3 {
				t.Fatalf("user:%d was denied 3 times, and %d are written", i, n)
			}
		}
		if others != 0 || total(sum) != 3*2800 || len(sum) > 1001 || sum["*"] != 3*1800 {
			t.Errorf("%d rows of %d, %d others, %d together", len(sum), total(sum), others, sum["*"])
		}
	})
}

// A long subject, and one that is what a row makes of it, are one row: two in a write would be refused, and so would
// all writes after it.
func TestASubjectAndWhatARowMakesOfItAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := denying(&denyingStore{})
		backend := withDenialLog(table)
		long := admin.Denied{Key: store.Key{Subject: strings.Repeat("x", admin.MaxDenialText+1), Name: "n"}}
		deny(t, backend, long.Key.Subject, 3)
		long.Shorten()
		deny(t, backend, long.Key.Subject, 2)
		deny(t, backend, "user:42", 1)
		pass(2 * time.Second)
		if sum, others := table.sum(); len(sum) != 2 || sum[long.Key.Subject] != 5 || sum["user:42"] != 1 ||
			others != 0 {
			t.Errorf("written: %v and %d others", sum, others)
		}
	})
}

// What may have been written is not written again. That it was lost is written once: with the next denial, without one,
// or when the log is closed.
func TestDenialsAreNotCountedTwice(t *testing.T) {
	for _, name := range []string{"a denial in an outage", "nothing", "the end"} {
		synctest.Test(t, func(t *testing.T) {
			table := denying(&denyingStore{err: store.ErrOutcomeUnknown})
			backend := withDenialLog(table)
			deny(t, backend, "user:42", 5)
			pass(time.Second + time.Millisecond)
			if sum, _ := table.sum(); sum["user:42"] != 5 {
				t.Fatalf("%s: written %v", name, sum)
			}
			table.set(nil)
			want := 0
			switch name {
			case "a denial in an outage":
				want = 1
				table.set(store.ErrUnavailable)
				deny(t, backend, "user:42", 1)
				pass(time.Minute)
				table.set(nil)
				pass(time.Minute)
			case "nothing":
				pass(2 * time.Minute)
			case "the end":
				backend.Close()
			}
			if sum, _ := table.sum(); total(sum) != int64(want) || !table.written()[0].Lost ||
				len(table.written()[0].Rows) != want {
				t.Errorf("%s: afterwards %+v", name, table.written())
			}
			deny(t, backend, "user:42", 1)
			pass(time.Hour)
			backend.Close()
			for _, write := range table.written()[1:] {
				if write.Lost {
					t.Errorf("%s: it is said twice: %+v", name, table.written())
				}
			}
		})
	}
}

// A write has the keys denied most, and the others follow, in the next seconds or when the log is closed.
func TestAWriteHasTheKeysDeniedMostAndTheOthersFollow(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table := denying(&denyingStore{})
			backend := withDenialLog(table)
			for i := range 450 {
				deny(t, backend, fmt.Sprintf("user:%d", i), 1+i%3)
			}
			if !closes {
				pass(time.Minute)
			}
			backend.Close()
			deny(t, backend, "late", 1)
			pass(time.Minute)
			if len(table.written()) != 3 || len(table.written()[0].Rows) != admin.MaxDenialRows || table.closed != 1 {
				t.Fatalf("%d writes, the first of %d rows; closed %d times", len(table.written()),
					len(table.written()[0].Rows),
					table.closed)
			}
			for _, row := range table.written()[0].Rows {
				if row.Count < 2 {
					t.Fatalf("the first write has %+v, and others were denied more", row)
				}
			}
			sum, others := table.sum()
			for i := range 450 {
				if n := sum[fmt.Sprintf("user:%d", i)]; n != int64(1+i%3) {
					t.Fatalf("user:%d was denied %d times, and %d are written", i, 1+i%3, n)
				}
			}
			if others != 0 || len(sum) != 450 {
				t.Errorf("%d others, %d keys", others, len(sum))
			}
		})
	}
}

func TestCloseGivesUpAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := denying(&denyingStore{hangs: true})
		backend := withDenialLog(table)
		deny(t, backend, "user:42", 1)
		begun := time.Now()
		backend.Close()
		if took := time.Since(begun); took > time.Second || table.closed != 1 {
			t.Errorf("it took %s; closed %d times", took, table.closed)
		}
	})
}
