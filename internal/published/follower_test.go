package published

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A version is in force from the next look on, and then a look is one small read.
func TestAFollowerPutsVersionsInForce(t *testing.T) {
	r := newRig(t)
	if err := r.Start(t.Context()); err != ErrNothing {
		t.Errorf("nothing was published: %v", err)
	}
	r.publish(t, limited(1))
	r.second()
	r.uses("the first", "1")
	reads, heads := r.reads, r.heads
	for range 5 {
		r.second()
	}
	if r.reads != reads || r.heads != heads+5 {
		t.Errorf("five looks without a change read %d versions and %d heads", r.reads-reads, r.heads-heads)
	}
	r.publish(t, limited(2))
	v := r.publish(t, limited(3))
	r.second()
	r.uses("the last of two", "1", "3")
	if r.InForce.Number != v.Number || r.InForce.Hash != v.Hash || !r.Since.Equal(r.now) || r.Err != nil {
		t.Errorf("in force is %+v since %s, %v", r.InForce, r.Since, r.Err)
	}
	r.says("since the first", 2, "<nil>")
}

// While the store is away or was emptied, the version stays in force; it is told once, and once that it is over.
func TestAFollowerKeepsAVersionWithoutTheStore(t *testing.T) {
	r := newRig(t)
	r.publish(t, limited(1))
	r.second()
	r.err = store.ErrUnavailable
	for range 3 {
		if err := r.second(); err == nil {
			t.Error("a look at a store that is away succeeds")
		}
	}
	r.says("away", 1, "unavailable")
	r.err = nil
	r.second()
	r.says("back", 2, "<nil>")
	head, versions := r.head, r.versions
	r.head, r.versions = "", map[int64]string{}
	r.second()
	r.says("emptied", 3, "no configuration was published")
	r.head, r.versions = head, versions
	r.second()
	r.uses("all the time", "1")
	r.says("restored", 4, "<nil>")
}

// A start without the store, or with a broken record in it, uses the version that was kept.
func TestAFollowerStartsWithWhatWasKept(t *testing.T) {
	r := newRig(t)
	r.publish(t, limited(1))
	r.second()
	r.publish(t, limited(2))
	r.second()
	r.err = store.ErrUnavailable
	r.begin()
	if err := r.Start(t.Context()); err != nil || r.InForce.Number != 2 {
		t.Errorf("%v, %+v", err, r.Err)
	}
	r.uses("before and after the restart", "1", "2", "2")
	r.err = nil
	r.versions[2] = "broken\n"
	r.begin()
	if err := r.Start(t.Context()); err != nil || r.InForce.Number != 2 {
		t.Errorf("with a broken record: %v, %+v", err, r.Err)
	}
	for _, kept := range []string{"", "x", "{}\n", r.kept[:len(r.kept)-1]} {
		r.kept = kept
		r.begin()
		if err := r.Start(t.Context()); err == nil || r.InForce != nil {
			t.Errorf("with %.20q kept: %v, %+v", kept, err, r.Err)
		}
	}
}

// What no publisher wrote is never in force, is told once, and stays harmless; a sound version after it is in force.
func TestAFollowerRefusesWhatIsBroken(t *testing.T) {
	r := newRig(t)
	r.publish(t, limited(1))
	r.second()
	good := r.head
	second := r.publish(t, limited(2))
	record, head := r.versions[2], r.head
	bomb := Version{Number: 2, Text: []byte("#" + strings.Repeat(" ", 8<<20) + "\n")}
	for name, spoil := range map[string]func(){
		"a head that is no JSON":   func() { r.head = "x" },
		"a negative version":       func() { r.head = Head{Version: -2, Oldest: -3, Hash: second.Hash}.Text() },
		"a version after them all": func() { r.head = Head{Version: 3, Oldest: 1, Hash: second.Hash}.Text() },
		"a number beyond all":      func() { r.head = Head{Version: 1<<53 + 1, Oldest: 1, Hash: second.Hash}.Text() },
		"a head of a later form":   func() { r.head = strings.Replace(head, `"schema":1`, `"schema":3`, 1) },
		"a record of a later form": func() { r.versions[2] = strings.Replace(record, `"schema":1`, `"schema":2`, 1) },
		"no record":                func() { delete(r.versions, 2) },
		"a record without a text":  func() { r.versions[2] = record[:strings.IndexByte(record, '\n')+1] },
		"a record that is cut off": func() { r.versions[2] = record[:len(record)-9] },
		"another text under a hash": func() {
			line, _, _ := strings.Cut(record, "\n")
			_, text, _ := strings.Cut(r.versions[1], "\n")
			r.versions[2] = line + "\n" + text
		},
		"another version's record": func() { r.versions[2] = r.versions[1] },
		"a text that expands": func() {
			r.versions[2] = bomb.Record()
			r.head = Head{Version: 2, Oldest: 1, Hash: Hash(bomb.Text)}.Text()
		},
		"a text with a mistake": func() { r.publish(t, []byte("policies: {login: {limts: []}}")) },
		"a text with contexts": func() {
			r.publish(t, append(limited(3), "contexts: {p: {store: memory:}}\n"...))
		},
		"a text this process cannot": func() { r.not = "2/1m" },
		"a record that is too large": func() { r.foreign = true },
		"a text that makes it panic": func() { r.bug = true },
	} {
		t.Run(name, func(t *testing.T) {
			r.t, r.head, r.versions[2], r.not, r.lines = t, good, record, "", r.lines[:2]
			r.foreign, r.bug = false, false
			delete(r.versions, 3)
			r.begin()
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.told, r.used, r.head = nil, nil, head
			spoil()
			r.large = 0
			for range 3 {
				if err := r.second(); err == nil {
					t.Fatal("it is in force")
				}
			}
			r.uses("spoilt")
			if len(r.told) != 1 || r.InForce.Number != 1 {
				t.Errorf("told %q; the state is %+v", r.told, r.Err)
			}
			if r.large > 1 {
				t.Errorf("a record was read %d times", r.large)
			}
			if _, err := readHead(r.head); err == nil && (r.Refused() == 0 ||
				!strings.Contains(r.report.text, `"error":"version `)) {
				t.Errorf("it reports %s", r.report.text)
			}
			r.foreign, r.bug = false, false
			r.not, r.head, r.versions[2] = "", Head{Version: 2, Oldest: 2, Hash: second.Hash}.Text(), record
			if err := r.second(); err != nil {
				t.Error(err)
			}
			r.uses("mended", "2")
		})
	}
}

// A version that cannot be kept is in force all the same, and it is told once.
func TestAVersionThatCannotBeKeptIsInForce(t *testing.T) {
	r := newRig(t)
	r.full = true
	r.publish(t, limited(1))
	for range 25 {
		if err := r.second(); err != nil {
			t.Fatalf("a version that is in force is an error: %v", err)
		}
	}
	r.uses("without room for it", "1")
	const says = "version 1 is in force, and cannot be kept for a start without the store: no room"
	if len(r.told) != 0 || r.Err != nil || strings.Contains(r.report.text, "error") || len(r.kepts) != 1 ||
		r.kepts[0] != says {
		t.Errorf("told %q and %q; it reports %s", r.told, r.kepts, r.report.text)
	}
	r.full = false
	r.publish(t, limited(2))
	if r.second(); r.kept != r.versions[2] {
		t.Errorf("with room, %q was kept", r.kept)
	}
}

// A process reports what it has in force at once, and then every ten seconds; it takes a free place, and leaves it.
func TestAFollowerReports(t *testing.T) {
	r := newRig(t)
	for place := range places - 1 { // of others
		r.placed[place] = admin.TableRecord{Value: strings.Repeat("o", idSize) + "{}", Left: reportKept}
	}
	report := func() Process {
		all, err := Processes(context.Background(), &r.table.Tables)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Name == "checkout" {
				return p
			}
		}
		return Process{}
	}
	r.publish(t, limited(1))
	for tries := 0; report().Name == "" && tries < 10_000; tries++ {
		r.second()
	}
	if p := report(); p.Version != 1 || p.Host != "one" || p.Refused != 0 || p.Seen != 0 {
		t.Errorf("it reports %+v", p)
	}
	r.publish(t, limited(2))
	r.second()
	if p := report(); p.Version != 2 || !p.Since.Equal(r.now) {
		t.Errorf("after a change it reports %+v", p)
	}
	r.not = "3/1m"
	r.publish(t, limited(3))
	r.second()
	if p := report(); p.Version != 2 || p.Refused != 3 || p.Error != "version 3 cannot be used: not here" {
		t.Errorf("of a version that it refuses it reports %+v", p)
	}
	delete(r.placed, r.place)
	for s := range 10 {
		if report().Name != "" {
			t.Errorf("it reports again after %d s", s)
		}
		r.second()
	}
	if report().Name == "" {
		t.Error("it does not report again after ten seconds")
	}
	r.Close(t.Context())
	if left := r.placed[r.place].Left.Milliseconds(); left != 1 {
		t.Errorf("after the end the report stays for %d ms", left)
	}
}

// A report of any texts fits, and is read back as valid UTF-8.
func TestAReportFits(t *testing.T) {
	for _, text := range []string{"x", "\x00", "é", "\xff", `"`, "<", "\u2028"} {
		long := strings.Repeat(text, 5000)
		p := Process{Name: long, Host: long, Program: long, Error: long, Version: 1 << 60, Refused: 1 << 60,
			PID: 1 << 60}
		if report := p.text(); idSize+len(report) > admin.MaxConfigReport || !utf8.ValidString(report) ||
			!strings.Contains(report, fmt.Sprint(1<<60)) {
			t.Errorf("%q: %s", text, report)
		}
	}
}
