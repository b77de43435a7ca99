package dash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// failing is a store whose scans fail if they are to.
type failing struct {
	admin.Keyspace
	with func(admin.Query) error
}

func (s *failing) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	if s.with == nil {
		return s.Keyspace.Scan(ctx, q)
	}
	if err := s.with(q); err != nil {
		return func(yield func(admin.Entry, error) bool) { yield(admin.Entry{}, err) }
	}
	return s.Keyspace.Scan(ctx, q)
}

// always is an error of every scan.
func always(err error) func(admin.Query) error { return func(admin.Query) error { return err } }

var away = fmt.Errorf("%w: 10.0.0.1:6379 is silent, said the proxy", store.ErrUnavailable)

func TestALostStoreLeavesTheLastFrameAndComesBack(t *testing.T) {
	backend := &failing{}
	d := begin(t, three, func(o *live.Options) {
		backend.Keyspace = o.Store
		o.Store = backend
	})
	backend.with = always(away)
	for range 7 {
		d.second()
	}
	if text := d.View(); !strings.Contains(text, "no answer for 7s, retrying") ||
		!strings.Contains(text, "proxy") || !strings.Contains(text, "full ") {
		t.Errorf("away:\n%s", text)
	}
	if r := d.feed.Rows[store.Key{Subject: "full", Name: "token-bucket/1m"}]; !r.InUse {
		t.Error("a key is taken for unused")
	}
	backend.with = nil
	d.second()
	if text := d.View(); strings.Contains(text, "no answer") {
		t.Errorf("back:\n%s", text)
	}
}

// That a scan had no answer is over with the next answer; that it may not scan is not.
func TestAnErrorThatHasEndedIsGone(t *testing.T) {
	d := begin(t, three, nil)
	for err, stays := range map[error]bool{store.ErrUnavailable: false, store.ErrRefused: true} {
		d.feed.ScanError = fmt.Errorf("%w: it says so", err)
		d.run(d.feed.Look())
		if text := d.View(); strings.Contains(text, "not all keys could be scanned") != stays {
			t.Errorf("after an answer, with %v:\n%s", err, text)
		}
	}
}

// After an outage of the whole store what was not scanned is soon there, however long the scan waited. While a server
// of several is away, scans rest.
func TestAScanWithoutAnAnswerIsMadeAgain(t *testing.T) {
	for whole, most := range map[bool]time.Duration{true: 2 * time.Second, false: 150 * time.Second} {
		backend, longest, scans, down := &failing{}, time.Duration(0), 0, false
		d := begin(t, three, func(o *live.Options) {
			backend.Keyspace, o.Store = o.Store, backend
			sleep := o.Sleep
			o.Sleep = func(ctx context.Context, pause time.Duration) error {
				longest = max(longest, pause)
				return sleep(ctx, pause)
			}
		})
		backend.with = func(q admin.Query) error {
			if len(q.Keys) > 0 {
				return map[bool]error{true: away}[down]
			}
			scans, down = scans+1, whole
			d.now = d.now.Add(30 * time.Second)
			return away
		}
		for range 5 {
			d.second()
		}
		if longest != most || whole && scans != 1 {
			t.Errorf("whole %t: %d scans, and the longest rest is %s", whole, scans, longest)
		}
		scans, backend.with = 0, func(q admin.Query) error {
			if len(q.Keys) == 0 {
				scans++
			}
			return nil
		}
		d.second()
		if d.second(); whole && scans == 0 {
			t.Errorf("%d scans after the outage", scans)
		}
	}
}

// Those at the limit stay in view, however many others there are.
func TestNoMoreThanMaxKeysAreFollowed(t *testing.T) {
	d := begin(t, func(d *driver) {
		for i := range 50 {
			d.take(store.Key{Subject: fmt.Sprintf("user:%02d", i)}, "100/1h", 1+int64(i))
		}
		d.take(store.Key{Subject: "full"}, "10/1h", 10)
	}, func(o *live.Options) {
		o.MaxKeys = 5
		o.Servers = func(context.Context) []live.Server {
			return []live.Server{{UsedMemory: 2, MaxMemory: 1, Refuses: true}}
		}
	})
	if text := d.View(); !strings.Contains(text, "5 of about 51 followed") ||
		!strings.Contains(text, "about 51 keys, about 1 at the limit") ||
		!strings.Contains(text, "every take is refused: memory is full, 2 B used of maxmemory 1 B") {
		t.Errorf("it says:\n%s", text)
	}
	if d.second(); !strings.Contains(d.View(), "≥0/s of followed keys") {
		t.Errorf("of what it does not follow it says:\n%s", d.View())
	}
	d.take(store.Key{Subject: "user:00"}, "100/1h", 99)
	d.second()
	if want := "[full] user:00 user:49 user:48 user:47"; d.subjects() != want {
		t.Errorf("then it follows %s, want %s", d.subjects(), want)
	}
}

func TestUnusedKeysAreForgotten(t *testing.T) {
	d := begin(t, func(d *driver) { d.take(store.Key{Subject: "a"}, "10/1s", 1) }, nil)
	d.second()
	if d.subjects() != "[a]" || d.feed.Listed[0].InUse {
		t.Errorf("it shows %s", d.subjects())
	}
	for range 62 {
		d.second()
	}
	if d.subjects() != "" || len(d.feed.Rows) > 0 {
		t.Errorf("it still shows %s", d.subjects())
	}
}

func TestOnce(t *testing.T) {
	d := begin(t, three, nil)
	var out bytes.Buffer
	o := d.feed.Options
	slept := time.Duration(0)
	o.Sleep = func(_ context.Context, pause time.Duration) error {
		slept = pause
		d.now = d.now.Add(pause)
		return nil
	}
	must(t, Once(t.Context(), &out, o, ui.NoColors(), 80, 24))
	if text := out.String(); strings.Contains(text, "> ") || !strings.Contains(text, "full") ||
		strings.Contains(text, "\x1b") ||
		slept != time.Second {
		t.Errorf("it wrote:\n%s", text)
	}
	o.Store = &failing{d.store, always(away)}
	if err := Once(t.Context(), &out, o, ui.NoColors(), 80, 24); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("of a store that is away: %v", err)
	}
}

// While one node of several does not answer, the keys of the others stay up to date, and its
// own are marked.
func TestOneNodeIsAway(t *testing.T) {
	backend := &failing{}
	a, b := store.Key{Subject: "a", Name: "token-bucket/1h"}, store.Key{Subject: "b", Name: "token-bucket/1h"}
	d := begin(t, func(d *driver) {
		d.take(a, "10/1h", 5)
		d.take(b, "10/1h", 6)
	}, func(o *live.Options) {
		backend.Keyspace = o.Store
		o.Store, o.NodeOf = backend, func(_ context.Context, subject string) string {
			return map[string]string{"a": "10.0.0.1:6379", "b": "10.0.0.2:6379"}[subject]
		}
	})
	d.second()
	backend.with = func(q admin.Query) error {
		if len(q.Keys) > 0 && q.Keys[0].Subject == "b" {
			return fmt.Errorf("%w: redis at 10.0.0.2:6379 cannot be reached: no answer in time", store.ErrUnavailable)
		}
		return nil
	}
	d.second()
	for i := range 4 {
		d.take(a, "10/1h", 1)
		d.take(b, "10/1h", 1)
		d.second()
		text := d.View()
		ofA, ofB := d.feed.Rows[a], d.feed.Rows[b]
		if ofA.Used != int64(6+i) || ofA.Stale || ofB.Used != 6 || !ofB.Stale {
			t.Errorf("%d of a and %d of b are used:\n%s", ofA.Used, ofB.Used, text)
		}
		if want := "no answer from 10.0.0.2:6379: 1 key marked ? as they were before"; !strings.Contains(text, want) ||
			!strings.Contains(text, " ?b ") || strings.Contains(text, "?a") {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	backend.with = nil
	d.second()
	if text := d.View(); d.feed.Rows[b].Used != 10 || strings.Contains(text, "no answer") {
		t.Errorf("back:\n%s", text)
	}
}
