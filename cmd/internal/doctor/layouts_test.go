package doctor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// foreignKeyspace scans what it is given, a page of ten at a time.
type foreignKeyspace struct {
	admin.Keyspace
	entries []admin.Entry
	errs    []error
	asked   *admin.Query
}

func (f *foreignKeyspace) Scan(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
	f.asked = &q
	return func(yield func(admin.Entry, error) bool) {
		for _, err := range f.errs {
			if !yield(admin.Entry{}, err) {
				return
			}
		}
		looked := int64(0)
		for page := range slices.Chunk(f.entries, 10) {
			if ctx.Err() != nil {
				yield(admin.Entry{}, ctx.Err())
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			looked += int64(len(page))
			q.Report(looked, int64(len(f.entries)))
		}
	}
}

func lookAt(t *testing.T, keys *foreignKeyspace, scanLimit int) ([]Finding, error) {
	t.Helper()
	e := &examination{Options: Options{ScanLimit: scanLimit, Layouts: Layouts{Keys: keys,
		ResetNoTTL: func(layout string) string { return "limitctl reset '*' --layout " + layout + " --no-ttl --dry-run" }}}}
	err := e.layouts(t.Context(), nil)
	return e.report.Findings, err
}

func foreignEntry(layout string, n int, used int64, defects ...admin.Defect) admin.Entry {
	e := admin.Entry{Key: store.Key{Subject: fmt.Sprint(n), Name: layout + "/minute"}, Layout: layout, TTL: time.Minute,
		StoreKey: fmt.Sprintf("%s:%d", layout, n), Defects: defects,
		Limit: store.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Minute, Burst: 10}}
	e.Used, e.Remaining, e.Allowed = used, max(0, 10-used), used < 10
	return e
}

func TestLayoutsAreCountedAndDefectsNamed(t *testing.T) {
	forEver := admin.Defect{Kind: admin.NeverExpires, Text: "no expiry, so it denies for ever (Kong/kong#5763)", Stuck: true}
	oneDay := admin.Defect{Kind: admin.NeverExpires, Text: "no expiry, so it will", Stuck: true}
	early := admin.Defect{Kind: admin.ShortTTL, Text: "expires before its units have come back"}
	unknown := foreignEntry("ulule", 1, 3)
	unknown.Limit = store.Limit{}
	keys := &foreignKeyspace{
		entries: []admin.Entry{foreignEntry("kong", 1, 3), foreignEntry("kong", 2, 10, forEver), foreignEntry("kong", 3, 11, forEver),
			foreignEntry("kong", 4, 1, oneDay), unknown, foreignEntry("traefik", 5, 4, early)},
		errs: []error{&layouts.UnsureError{StoreKey: "rate:x", Layouts: []string{"traefik", "redis_rate"}},
			&store.ForeignError{StoreKey: "rate:y", Holds: "a list"}},
	}
	findings, err := lookAt(t, keys, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []verdictTest{
		{"layouts", Finding{}, OK,
			"kong 4 limits (2 at the limit), traefik 1 limit, ulule 1 limit; " +
				"of 1 limit it is not known how much is allowed, and --limit can say it", ""},
		{"unsure", Finding{}, OK, "not sure of 1 key that may be of redis_rate or traefik, and left out: rate:x", ""},
		{"unreadable", Finding{}, Warn, "1 key left out: ", "see whether these keys are of that layout"},
		{"for ever", Finding{}, Fail, "2 keys of kong, 2 of them at the limit: no expiry, so it denies for ever " +
			"(Kong/kong#5763): kong:2, kong:3",
			"waiting does not help"},
		{"not yet", Finding{}, Warn, "1 key of kong: no expiry, so it will: kong:4", "waiting does not help"},
		{"early", Finding{}, Warn, "1 key of traefik: expires before its units have come back: traefik:5",
			"a version of the limiter that keeps them longer"},
	}
	forEverUnsure := layoutFacts{}
	forEverUnsure.addUnsure(&layouts.UnsureError{StoreKey: "limiter:x", Layouts: []string{"ulule"}, NeverExpires: true})
	forEverUnsure.addUnsure(&layouts.UnsureError{StoreKey: "limiter:y", Layouts: []string{"ulule"}})
	want = append(want, verdictTest{"unsure for ever", Finding{}, Warn,
		"not sure of 2 keys that may be of ulule, and left out; 1 key without a TTL, which may deny for ever: limiter:x",
		"inspect --layout NAME"})
	findings = append(findings, forEverUnsure.judgeUnsure())
	if len(findings) != len(want) {
		t.Fatalf("there are %d findings, want %d: %+v", len(findings), len(want), findings)
	}
	for i := range want {
		want[i].found = findings[i]
	}
	checkVerdicts(t, want)
	for i, f := range findings {
		command := ""
		if strings.Contains(f.Advice, "waiting does not help") {
			command = "limitctl reset '*' --layout kong --no-ttl --dry-run"
		}
		if f.Command != command {
			t.Errorf("finding %d has the command %q, want %q", i, f.Command, command)
		}
	}
}

func TestLayoutsWithoutDefects(t *testing.T) {
	findings, err := lookAt(t, &foreignKeyspace{entries: []admin.Entry{foreignEntry("kong", 1, 3)}}, 0)
	if err != nil || len(findings) != 2 || findings[1].Summary != "nothing is wrong with the keys of other limiters" {
		t.Errorf("%+v, %v", findings, err)
	}
	findings, err = lookAt(t, &foreignKeyspace{}, 0)
	if err != nil || len(findings) != 1 || findings[0].Summary != "no limits of other limiters" {
		t.Errorf("%+v, %v", findings, err)
	}
}

// The look ends at the bound, also where a page has nothing of interest, and says so.
func TestLayoutsUpToTheScanLimit(t *testing.T) {
	keys := &foreignKeyspace{}
	for i := range 100 {
		keys.entries = append(keys.entries, foreignEntry("kong", i, 3))
	}
	findings, err := lookAt(t, keys, 25)
	if err != nil || len(findings) == 0 {
		t.Fatal(findings, err)
	}
	const want = "stopped early: kong 30 limits among the 30 keys looked at of 100 keys (--scan-limit 0 looks at all)"
	if got := findings[0].Summary; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	const last = "nothing is wrong with the keys of other limiters among the 30 keys looked at of 100 keys"
	if got := findings[len(findings)-1].Summary; got != last {
		t.Errorf("%q, want %q", got, last)
	}
}

// What keeps one from looking is told. Only a store that has stopped answering ends the examination.
func TestLayoutsThatCannotBeLookedAt(t *testing.T) {
	refused := fmt.Errorf("%w: no rights", store.ErrRefused)
	findings, err := lookAt(t, &foreignKeyspace{errs: []error{refused}}, 0)
	if err != nil || len(findings) != 1 || findings[0].Status != Warn || !strings.Contains(findings[0].Summary, "no rights") {
		t.Errorf("%+v, %v", findings, err)
	}
	if findings, err = lookAt(t, &foreignKeyspace{errs: []error{store.ErrUnavailable}}, 0); err == nil || len(findings) > 0 {
		t.Errorf("%+v, %v", findings, err)
	}
}
