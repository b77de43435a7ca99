package published

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// change makes a change of what is published.
func (t *table) change(tb testing.TB, make func(s *State, v *Version) admin.ConfigChange, text []byte) *Version {
	tb.Helper()
	s, err := Read(context.Background(), t)
	if err != nil {
		tb.Fatal(err)
	}
	v := &Version{By: "anna", Reason: "a test", Text: text}
	if done, err := t.PublishConfig(context.Background(), make(s, v)); err != nil || !done {
		tb.Fatal(done, err)
	}
	return v
}

// try tries a text beside the version in force.
func (t *table) try(tb testing.TB, text []byte, plan Canary) *Version {
	tb.Helper()
	return t.change(tb, func(s *State, v *Version) admin.ConfigChange { return s.Try(v, plan) }, text)
}

func (t *table) promote(tb testing.TB) { tb.Helper(); t.change(tb, (*State).Promote, nil) }

func (t *table) withdraw(tb testing.TB) { tb.Helper(); t.change(tb, (*State).Withdraw, nil) }

// A version is tried beside the one in force, by another plan without losing its number, and then put in force or withdrawn.
func TestAFollowerTriesTheNextVersion(t *testing.T) {
	r := newRig(t)
	r.publish(t, limited(1))
	r.second()
	since := r.State().Since
	r.try(t, limited(2), Canary{})
	r.second()
	r.uses("a shadow", "1", "1+2")
	if s := r.State(); !s.Since.Equal(since) || s.InForce.Number != 1 || s.Next.Number != 2 ||
		!strings.Contains(r.report.text, `"next":2`) {
		t.Errorf("the state is %+v, and it reports %s", s, r.report.text)
	}
	reads := r.reads
	r.second()
	if v := r.try(t, limited(2), Canary{Share: 100, By: "ip"}); v.Number != 2 {
		t.Errorf("with another plan it is version %d", v.Number)
	}
	r.second()
	r.uses("a share", "1", "1+2", "1+2/100ip")
	if r.reads != reads {
		t.Errorf("another plan reads %d versions", r.reads-reads)
	}
	r.try(t, limited(3), Canary{Share: 100, By: "ip"})
	r.second()
	r.uses("another version", "1", "1+2", "1+2/100ip", "1+3/100ip")
	if r.versions[2] != "" || r.versions[1] == "" {
		t.Error("the version that was tried is kept, or that in force is not")
	}
	r.withdraw(t)
	r.second()
	r.uses("withdrawn", "1", "1+2", "1+2/100ip", "1+3/100ip", "1")
	if r.State().Next != nil || r.versions[3] != "" || strings.Contains(r.report.text, "next") {
		t.Errorf("withdrawn, it reports %s", r.report.text)
	}
	r.used = nil
	if v := r.try(t, limited(4), Canary{}); v.Number != 4 {
		t.Errorf("the next number is %d", v.Number)
	}
	r.second()
	r.promote(t)
	r.second()
	r.uses("promoted", "1+4", "4")
	if v := r.publish(t, limited(5)); v.Number != 5 {
		t.Errorf("after a promotion the next number is %d", v.Number)
	}
	s, err := Read(t.Context(), r.table)
	if err != nil {
		t.Fatal(err)
	}
	kept := ""
	for number := range int64(7) {
		if s.Kept(number) != (r.versions[number] != "") {
			t.Errorf("version %d is said to be kept: %t", number, s.Kept(number))
		}
		if s.Kept(number) {
			kept += fmt.Sprint(number)
		}
	}
	if kept != "145" || s.Before() != 4 {
		t.Errorf("kept are %s, and before was %d", kept, s.Before())
	}
	var lines []string
	for _, l := range s.Lines {
		lines = append(lines, fmt.Sprint(l.Did, l.Version, l.Share, l.Attribute, l.Bytes > 0))
	}
	want := "[publish1 0true shadow2 0true canary2 100iptrue canary3 100iptrue withdraw3 0true shadow4 0true promote4 0true publish5 0true]"
	if fmt.Sprint(lines) != want {
		t.Errorf("the history is %v", lines)
	}
	r.second()
	r.withdrawnTo(t)
}

// withdrawnTo checks that a full version ends a trial.
func (r *rig) withdrawnTo(t *testing.T) {
	r.try(t, limited(6), Canary{})
	r.second()
	r.publish(t, limited(7))
	r.second()
	if s := r.State(); s.Next != nil || s.InForce.Number != 7 || r.versions[6] != "" {
		t.Errorf("a version ends a trial: %+v", s)
	}
}

// At its end by the store's clock a trial is over in each process, by itself, whatever the clock of the process shows, and
// also while the store is away. Another end takes the place of the first.
func TestATrialEndsByItself(t *testing.T) {
	r := newRig(t)
	r.ahead = -7 * time.Hour // the store's clock
	storeTime := func(after time.Duration) store.Instant { return store.InstantOf(r.now.Add(r.ahead + after)) }
	r.publish(t, limited(1))
	r.second()
	end := storeTime(10 * time.Second)
	r.try(t, limited(2), Canary{Until: end})
	r.second() // one second after
	trial := r.State().Next.Trial
	r.now = r.now.Add(9*time.Second - time.Microsecond)
	if trial.Ended() {
		t.Error("it ends a microsecond too early")
	}
	r.now = r.now.Add(time.Microsecond)
	if !trial.Ended() {
		t.Error("it does not end in time")
	}
	r.second()
	if strings.Contains(r.report.text, "next") {
		t.Errorf("after the end it reports %s", r.report.text)
	}
	r.begin() // a process that starts after the end
	if err := r.Start(t.Context()); err != nil || r.State().Next != nil || r.State().InForce.Number != 1 {
		t.Errorf("after the end begins %+v, %v", r.State(), err)
	}
	r.try(t, limited(2), Canary{Until: storeTime(5 * time.Second)}) // once more
	r.second()
	trial = r.State().Next.Trial
	r.try(t, limited(2), Canary{Until: storeTime(50 * time.Second)})
	r.second()
	if r.State().Next.Trial != trial {
		t.Error("another end begins the trial anew")
	}
	r.err = store.ErrUnavailable
	r.now = r.now.Add(47 * time.Second)
	if r.second(); trial.Ended() {
		t.Error("a later end does not hold")
	}
	if r.second(); !trial.Ended() {
		t.Error("without the store it does not end")
	}
	r.err = nil
	// The process's clock is slow, and follows the store's.
	r.try(t, limited(3), Canary{Until: storeTime(20 * time.Second)})
	r.second()
	trial = r.State().Next.Trial
	r.ahead += 15 * time.Second
	for range 4 {
		r.second()
	}
	if !trial.Ended() {
		t.Error("it ends by the clock of the process")
	}
}

// The version in force does not wait for the one beside it, whose end is not known without the right to read the clock.
func TestTheVersionInForceDoesNotWaitForTheEndOfATrial(t *testing.T) {
	r := newRig(t)
	r.publish(t, limited(1))
	r.second()
	r.publish(t, limited(2))
	r.try(t, limited(3), Canary{Until: store.InstantOf(r.now.Add(time.Hour))})
	r.noTime = store.ErrRefused
	if err := r.second(); err == nil || r.State().InForce.Number != 2 || r.State().Next != nil {
		t.Fatalf("without the clock: %v, %+v", err, r.State())
	}
	r.says("without the clock", 1, "the end of version 3, which is tried, is not known")
	r.noTime = nil
	if err := r.second(); err != nil || r.State().Next == nil {
		t.Errorf("with the clock: %v, %+v", err, r.State())
	}
}

// A next version that cannot be used is told, and the version in force stays, also a new one; a sound one after it is tried.
func TestAFollowerKeepsTheVersionBesideABrokenNext(t *testing.T) {
	for name, spoil := range map[string]func(r *rig){
		"a text with a mistake": func(r *rig) { r.try(r.t, []byte("policies: {login: {limts: []}}"), Canary{}) },
		"a text this process cannot": func(r *rig) {
			r.not = "2/1m"
			r.try(r.t, limited(2), Canary{})
		},
		"a text that makes it panic": func(r *rig) {
			r.bug = true
			r.try(r.t, limited(2), Canary{})
		},
		"no record": func(r *rig) {
			v := r.try(r.t, limited(2), Canary{})
			delete(r.versions, v.Number)
		},
		"another record": func(r *rig) {
			v := r.try(r.t, limited(2), Canary{})
			r.versions[v.Number] = r.versions[1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.t = t
			r.publish(t, limited(1))
			r.second()
			spoil(r)
			for range 3 {
				if err := r.second(); err == nil {
					t.Fatal("it is in force")
				}
			}
			r.says("spoilt", 1, "version 2 cannot be used")
			if s := r.State(); s.InForce.Number != 1 || s.Next != nil || s.Refused != 2 || !strings.Contains(r.report.text, `"refused":2`) {
				t.Errorf("the state is %+v, and it reports %s", s, r.report.text)
			}
			r.uses("spoilt", "1")
			r.begin() // also for a process that begins now
			if err := r.Start(t.Context()); err != nil || r.State().InForce.Number != 1 || r.State().Refused != 2 {
				t.Errorf("a start: %v, %+v", err, r.State())
			}
			r.not, r.bug = "", false
			r.try(t, limited(9), Canary{})
			if err := r.second(); err != nil || r.State().Next.Number != 3 {
				t.Errorf("mended: %v, %+v", err, r.State())
			}
		})
	}
}

// A program that knows only heads without a canary refuses one with it, and so does this one a later form; what no publisher
// writes is broken.
func TestHeadsWithACanary(t *testing.T) {
	hash := Hash(nil)
	good := Head{Version: 3, Oldest: 1, Hash: hash, Next: Canary{Version: 5, Hash: hash, Share: 10, By: "tenant", Until: 7}}
	if text := good.Text(); !strings.HasPrefix(text, `{"schema":2,`) {
		t.Errorf("an older program would read %s", text)
	}
	if read, err := readHead(good.Text()); err != nil || read.Next != good.Next {
		t.Errorf("%+v, %v", read, err)
	}
	if text := (Head{Version: 3, Oldest: 1, Hash: hash}).Text(); strings.Contains(text, "next") ||
		!strings.HasPrefix(text, `{"schema":1,`) {
		t.Errorf("an older program cannot read %s", text)
	}
	if _, err := readHead(strings.Replace(good.Text(), `"schema":2`, `"schema":3`, 1)); err == nil ||
		!strings.Contains(err.Error(), "has form 3, and this program knows forms up to 2") {
		t.Errorf("of a later form: %v", err)
	}
	for name, spoil := range map[string]func(c *Canary){
		"the version in force":   func(c *Canary) { c.Version = 3 },
		"an earlier one":         func(c *Canary) { c.Version = 1 },
		"beyond all numbers":     func(c *Canary) { c.Version = 1<<53 + 1 },
		"no hash":                func(c *Canary) { c.Hash = "" },
		"more than all":          func(c *Canary) { c.Share = policy.WholeShare + 1 },
		"less than nothing":      func(c *Canary) { c.Share = -1 },
		"a share of nothing":     func(c *Canary) { c.By = "" },
		"an attribute alone":     func(c *Canary) { c.Share = 0 },
		"no attribute's name":    func(c *Canary) { c.By = "a b" },
		"an end before all time": func(c *Canary) { c.Until = -1 },
		"an end after all time":  func(c *Canary) { c.Until = store.MaxInstant + 1 },
	} {
		h := good
		spoil(&h.Next)
		if _, err := readHead(h.Text()); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	for _, forms := range [][2]string{{`"schema":2`, `"schema":1`}, {`"version":5`, `"version":0`}} {
		if _, err := readHead(strings.Replace(good.Text(), forms[0], forms[1], 1)); err == nil {
			t.Errorf("%s in the place of %s is read", forms[1], forms[0])
		}
	}
}

// However often a version is tried, the version in force is kept, and all is bounded.
func TestTryingIsBounded(t *testing.T) {
	table := newTable()
	text := random(configfile.MaxSize)
	for i := range 5 {
		text[0] = byte(i)
		table.publish(t, text)
	}
	for i := range 72 { // more often than versions are kept, and at first with large ones
		if text[0] = byte(100 + i); i == 12 {
			text = limited(1)
		} else if i > 12 {
			text = limited(i)
		}
		v := table.try(t, text, Canary{})
		bytes := 0
		for _, record := range table.versions {
			bytes += len(record)
		}
		if table.versions[5] == "" || table.versions[v.Number] == "" || bytes > admin.ConfigBytesKept || len(table.versions) < 2 {
			t.Fatalf("after %d trials, %d are kept with %d bytes", i+1, len(table.versions), bytes)
		}
	}
	s, err := Read(t.Context(), table)
	if err != nil || s.Head.Version != 5 || s.NextNumber() != 78 {
		t.Errorf("%+v, %v", s.Head, err)
	}
	table.promote(t)
	table.publish(t, random(1000))
	if len(table.versions) < 2 || table.versions[77] == "" || table.versions[78] == "" {
		t.Errorf("%d are kept", len(table.versions))
	}
}

// The figures of a trial: each take counts once, and the subjects are those that differ.
func TestATrialCounts(t *testing.T) {
	two := func(ip, day string) (*configfile.File, error) {
		return Parse("two", fmt.Appendf(nil, "policies:\n  login:\n    limits: [{name: ip, by: [ip], limit: %s}, "+
			"{name: day, by: [ip], limit: '%s'}]\n", ip, day))
	}
	old, err := two("5/1m", "50/1d")
	if err != nil {
		t.Fatal(err)
	}
	next, err := two("3/1m", "sliding-log:50/1d")
	if err != nil {
		t.Fatal(err)
	}
	trial := newTrial(Canary{Version: 2}, time.Now)
	prepared := trial.Policies(old.Policies, next.Policies)[0].Prepare()
	take := func(ip string, ipAllowed, dayAllowed, ipNext, dayNext bool) {
		reqs, _, err := prepared.AppendRequests(nil, nil, policy.Attributes{"ip": ip}, 1)
		if err != nil {
			t.Fatal(err)
		}
		reqs[0].Trial.Judged(reqs[0].Trial, reqs, []store.Decision{{Allowed: ipAllowed}, {Allowed: dayAllowed}}, []bool{ipNext, dayNext})
	}
	take("a", true, true, true, true)
	take("a", true, true, false, true)
	take("a", true, true, false, false)
	take("b", true, true, true, false)
	take("b", false, true, true, true)
	take("c", false, false, false, false)
	trial.judged(&store.Trial{}, nil, nil, nil)
	f := trial.Figures(2)
	// A denial by another policy of the same call is none of this one.
	reqs, _, err := prepared.AppendRequests(nil, nil, policy.Attributes{"ip": "a"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := store.Request{Key: store.Key{Subject: "ip:a", Name: "other/ip"}}
	reqs[0].Trial.Judged(reqs[0].Trial, append([]store.Request{other}, reqs...),
		[]store.Decision{{}, {Allowed: true}, {Allowed: true}}, []bool{true, true})
	if g := trial.Figures(2); g.Judged != f.Judged+1 || g.NoMore != f.NoMore || g.Denied != f.Denied {
		t.Errorf("beside another policy that denies: %+v, before %+v", g, f)
	}
	want := Figures{Judged: 6, Denied: 2, Anew: 3, NoMore: 1, Unjudged: 1,
		TopAnew: []SubjectCount{{"login/ip", "ip:a", 2}, {"login/day", "ip:a", 1}}, TopNoMore: []SubjectCount{{"login/ip", "ip:b", 1}}}
	if fmt.Sprint(f) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", f, want)
	}
	limits := trial.Limits()
	if len(limits) != 2 || limits[LimitName{"login", "ip"}] != (LimitFigures{2, 1}) ||
		limits[LimitName{"login", "day"}] != (LimitFigures{2, 0}) {
		t.Errorf("%+v", limits)
	}
	others := []SubjectCount{{"login/day", "ip:a", 5}, {"x", "y", -1}, {"x", "z", 1 << 60}}
	f.Add(&Figures{Judged: 4, Anew: 1, Denied: -9, TopAnew: others}, 2)
	want = Figures{Judged: 10, Denied: 2, Anew: 4, NoMore: 1, Unjudged: 1,
		TopAnew: []SubjectCount{{"login/day", "ip:a", 6}, {"login/ip", "ip:a", 2}}, TopNoMore: []SubjectCount{{"login/ip", "ip:b", 1}}}
	if fmt.Sprint(f) != fmt.Sprint(want) {
		t.Errorf("together %+v, want %+v", f, want)
	}
}

// A share counts what each version decides.
func TestAShareCounts(t *testing.T) {
	old, _ := Parse("old", limited(5))
	next, _ := Parse("next", limited(3))
	trial := newTrial(Canary{Version: 2, Share: 7000, By: "ip"}, time.Now)
	prepared := trial.Policies(old.Policies, next.Policies)[0].Prepare()
	for _, take := range []struct {
		ip      string
		allowed bool
	}{{"globex", true}, {"globex", false}, {"acme", true}, {"acme", true}, {"acme", false}} {
		attributes := policy.Attributes{"ip": take.ip}
		reqs, _, err := prepared.For(attributes).AppendRequests(nil, nil, attributes, 1)
		if err != nil {
			t.Fatal(err)
		}
		reqs[0].Trial.Judged(reqs[0].Trial, reqs, []store.Decision{{Allowed: take.allowed}}, nil)
	}
	want := Figures{Judged: 3, Denied: 1, ByNext: 2, ByNextDenied: 1, TopAnew: []SubjectCount{{"login/ip", "ip:globex", 1}}}
	if f := trial.Figures(9); fmt.Sprint(f) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", f, want)
	}
}

// A report with figures fits, with as many subjects as there is room for.
func TestAReportWithFiguresFits(t *testing.T) {
	for _, size := range []int{1, 100, 2000} {
		figures := Figures{Judged: 1 << 50, Anew: 1 << 50, NoMore: 1 << 50, Unjudged: 1 << 50}
		for i := range topReported {
			c := SubjectCount{"login/ip", fmt.Sprint(i) + strings.Repeat("s", size), 1 << 50}
			figures.TopAnew, figures.TopNoMore = append(figures.TopAnew, c), append(figures.TopNoMore, c)
		}
		p := Process{Name: "checkout", Host: "one", Program: "limitctl 1", Version: 1, Next: 2, Figures: &figures}
		r := admin.ConfigReport{ID: strings.Repeat("a", admin.ConfigIDSize), Text: p.text(), Left: 1e9}
		if err := r.Check(); err != nil || !strings.Contains(r.Text, `"figures":{"judged":1125899906842624`) ||
			(size < 2000) != strings.Contains(r.Text, `"subject":"0s`) {
			t.Errorf("%d: %v, %s", size, err, r.Text)
		}
		if len(figures.TopAnew) != topReported {
			t.Error("the figures themselves are shortened")
		}
	}
}
