package report

import (
	"bytes"
	"encoding/json"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"strings"
	"testing"
	"time"
)

// judged is a document with a run on a limit of 100/1s, as change makes it.
func judged(change func(*Run)) *Document {
	d := New(LoadTest)
	run := oneRun().Runs[0]
	change(&run)
	run.Limits[0].Denied = run.Denied
	run.Limits[0].Audit = run.Audit
	d.Runs = []Run{run}
	return d
}

// The verdict is first, with a sentence that says why: the least that explains it.
func TestVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Run)
		want   string // the first line, without the spaces after the verdict
		failed bool
	}{
		"right": {func(*Run) {}, "PASS nobody got more than the limit", false},
		"over": {
			func(r *Run) { r.Audit.OverAdmitted, r.Audit.KeysOver = 10, 10 },
			"FAIL admitted 10 units too many on 10 keys", true,
		},
		"over, of an old version": {func(r *Run) { r.Audit.OverAdmitted = 3938 }, "FAIL admitted 3,938 units too many",
			true},
		"under": {
			func(r *Run) { r.Audit.UnderAdmitted = 3 }, "FAIL denied 3 units that fitted", true,
		},
		"under, as explained": {
			func(r *Run) { r.Audit.UnderAdmitted, r.Audit.UnderExplained = 40, true },
			"PASS nobody got more than the limit", false,
		},
		"doubtful": {
			func(r *Run) { r.Audit.OverAdmitted, r.Audit.Doubtful = 40, true },
			"INCONCLUSIVE the audit proves nothing, because something else than the limit can explain what it finds; " +
				"see the warnings",
			false,
		},
		"a lie": {
			func(r *Run) {
				r.Audit.Lies = &loadgen.Lies{Checked: 9, Wrong: 2, Fields: []loadgen.Lie{{
					Field: "retry_after", Answers: 2, Key: "user:3", At: time.Date(2026, 3, 1, 12, 0, 1, 2000,
						time.UTC), Reported: "5ms",
					True: "10ms",
				}}}
			},
			"FAIL retry-after was told as 5ms and is 10ms, at 12:00:01.000002 of user:3; wrong in 2 answers", true,
		},
		"only errors": {
			func(r *Run) { r.Errors, r.Allowed, r.Denied = r.Requests, 0, 0 },
			"INCONCLUSIVE 30,110 of 30,110 planned requests got no decision (100%), and at most 1% may: " +
				"30,110 failed, and 0 were dropped", true,
		},
		"a limit that was never reached": {
			func(r *Run) { r.Denied, r.Audit.LimitReached = 0, Pointer(0.07) },
			"INCONCLUSIVE never above 7% of the limit, so over-admission was not tested; ask for more, or let fewer " +
				"keys ask",
			false,
		},
		"a limit that denied what cost more than was left": {
			func(r *Run) { r.Denied, r.Audit.LimitReached = 1, Pointer(0.07) }, "PASS nobody got more than the limit",
			false,
		},
		"wrong, and too many errors": {
			func(r *Run) { r.Audit.OverAdmitted, r.Errors = 3, 9000 },
			"FAIL admitted 3 units too many", true,
		},
	} {
		d := judged(test.change)
		line, _, _ := strings.Cut(Printed(Answer{Report: d}, 0), "\n")
		if got := strings.Join(strings.Fields(line), " "); got != test.want || d.Failed(false, false) != test.failed {
			t.Errorf("%s: %s, failed %t", name, got, d.Failed(false, false))
		}
		var document struct {
			Verdict Verdict
			Passed  bool
			Reasons []string
		}
		text, err := json.Marshal(Answer{Report: d}.Document())
		if err == nil {
			err = json.Unmarshal(text, &document)
		}
		word, _, _ := strings.Cut(test.want, " ")
		if err != nil || strings.ToUpper(string(document.Verdict)) != word ||
			(len(document.Reasons) > 0) == (word == "PASS") ||
			document.Passed != (word == "PASS") {
			t.Errorf("%s: %+v, %v", name, document, err)
		}
	}
}

// A policy passes if one of its limits was reached and enforced. A limit that was not reached is named as not tested.
func TestALimitOfAPolicyThatWasNeverReached(t *testing.T) {
	const passes = "PASS     nobody got more than the limit\n"
	const note = "hour was never above 10% of the limit, so over-admission was not tested; ask for more, or let " +
		"fewer keys ask\n"
	for name, test := range map[string]struct {
		change         func(r *Run, minute *loadgen.Limit)
		begins, within string
	}{
		"one reached": {func(*Run, *loadgen.Limit) {}, passes, "\n! " + note},
		"denials of a limit that nobody knows": {func(_ *Run, minute *loadgen.Limit) {
			minute.Denied, minute.LimitReached = 0, Pointer(0.99)
		}, passes, "\n! " + note},
		"none reached": {func(r *Run, minute *loadgen.Limit) {
			minute.Denied, minute.LimitReached, r.Denied = 0, Pointer(0.99), 0
		}, "INCONCLUSIVE  " + note, ""},
		"one used up": {func(r *Run, minute *loadgen.Limit) { minute.Denied, r.Denied = 0, 0 }, passes, "\n! " + note},
		"one wrong": {func(_ *Run, minute *loadgen.Limit) { minute.OverAdmitted = 3 },
			"FAIL     minute: admitted 3 units too many\n", "\n! " + note},
		"a shadow alone reached": {func(r *Run, minute *loadgen.Limit) { minute.Shadow, r.Denied = true, 0 },
			"INCONCLUSIVE  " + note, ""},
	} {
		d := judged(func(r *Run) { r.Policy = "login" })
		r := &d.Runs[0]
		hour := r.Limits[0]
		r.Limits[0].Name, hour.Name, hour.Denied, hour.LimitReached = "minute", "hour", 0, Pointer(0.1)
		r.Limits = append(r.Limits, hour)
		test.change(r, &r.Limits[0])
		text := Printed(Answer{Report: d}, 0)
		if !strings.HasPrefix(text, test.begins) || !strings.Contains(text, test.within) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// At most one in a hundred planned requests may get no decision, or as many as the report says, in each form of it.
func TestRequestsWithoutADecision(t *testing.T) {
	d := judged(func(r *Run) { r.Requests, r.Allowed, r.Denied, r.Dropped, r.Errors = 9900, 9000, 900, 100, 0 })
	if text := Printed(Answer{Report: d}, 0); !strings.HasPrefix(text, "PASS ") || d.undecided(0) != "" {
		t.Errorf("with 1%% dropped:\n%s", text)
	}
	r := &d.Runs[0]
	r.Allowed, r.Errors, r.TimedOut = 8999, 1, 1
	const want = "101 of 10,000 planned requests got no decision (1.0%), and at most 1% may: " +
		"1 failed, of which 1 timed out, and 100 were dropped"
	if text := Printed(Answer{Report: d}, 0); !strings.HasPrefix(text, "INCONCLUSIVE  "+want+"\n") ||
		d.undecided(0) == "" {
		t.Errorf("%s", text)
	}
	share := 0.5
	if d.MaxErrors = &share; d.undecided(0) != "" || d.Failed(false, true) {
		t.Errorf("with 50%% that may fail: %v", d.Reasons)
	}
}

// What was not tested is skipped in JUnit, not passed; and what ends with exit code 1 fails there, too.
func TestJUnitSaysWhatTheCommandDoes(t *testing.T) {
	const under, skipped, failed = `name="no under-admission">`, `<skipped message="`, `<failure message="`
	for name, test := range map[string]struct {
		change func(*Document, *Run)
		want   string
	}{
		"tested":       {func(*Document, *Run) {}, under + `</testcase>`},
		"nothing sent": {func(_ *Document, r *Run) { r.Requests = 0 }, under + skipped + `nothing was sent`},
		"never reached": {func(_ *Document, r *Run) { r.Denied, r.Audit.LimitReached = 0, Pointer(0.07) },
			under + skipped + `never above 7% of the limit`},
		"wrong": {func(_ *Document, r *Run) { r.Audit.UnderAdmitted = 3 },
			under + failed + `denied 3 units that fitted`},
		"unseen": {func(_ *Document, r *Run) { r.Endpoint, r.Denied = &Endpoint{}, 0 },
			under + skipped + `nothing was denied, or no denial was certainly of this limit`},
		"another page": {func(_ *Document, r *Run) {
			r.Denied, r.Statuses, r.Audit.OverAdmitted = 0, map[string]int64{"404": r.Allowed}, 3
		}, `name="no over-admission">` + skipped + notServed},
		"one in a hundred":       {func(_ *Document, r *Run) { r.Errors = r.Requests / 100 }, `failures="0"`},
		"more without an answer": {func(_ *Document, r *Run) { r.Errors = r.Requests/100 + 1 }, "got no decision"},
		"interrupted":            {func(d *Document, _ *Run) { d.Interrupted = true }, failed + "interrupted: "},
	} {
		d := judged(func(r *Run) { test.change(new(Document), r) })
		test.change(d, &d.Runs[0])
		for _, strict := range []bool{true, false} {
			text := string(Answer{Report: d}.Summary(strict).JUnit())
			if !strict && !strings.Contains(text, test.want) ||
				d.Failed(false, strict) && !strings.Contains(text, failed) {
				t.Errorf("%s, strict %t: %s", name, strict, text)
			}
		}
	}
}

// A promise that was not judged is neither kept nor missed, in each form of a report.
func TestAPromiseThatWasNotJudged(t *testing.T) {
	d := judged(func(r *Run) { r.GeneratorLimited = true })
	Promised(d, "p99<1.2ms", "denied<99%", "p99<5ms")
	text := Printed(Answer{Report: d}, 0)
	const want = "p99<1.2ms was not judged: it was 1.25ms, and the load generator was the limit"
	if !strings.HasPrefix(text, "INCONCLUSIVE  1 threshold not judged\n") || !d.Failed(false, false) ||
		d.Failed(true, false) || !d.Failed(true, true) ||
		!strings.Contains(text, "\n! "+want+"\n✓ denied<99%: 65.224% · p99<5ms: 1.25ms\n") {
		t.Errorf("%s", text)
	}
	if junit := string(Answer{Report: d}.Summary(false).JUnit()); !strings.Contains(junit,
		`<failure message="p99&lt;1.2ms was not judged`) {
		t.Errorf("%s", junit)
	}
	if !bytes.Contains(pageOf(t, d), []byte("was not judged: it was 1.25ms")) {
		t.Error("the page does not say what was not judged")
	}
}

// Nothing of a text of others leaves the fences of a summary.
func TestSummaries(t *testing.T) {
	d := oneRun()
	d.Runs[0].Load = "````\n# heading"
	const begins, ends = "### ❌ FAIL: load test of `token-bucket 100/10s`\n\n`````\nFAIL     1 of 3 promises missed\n",
		"\n`````\n"
	if got := string(Answer{Report: d}.Summary(false).Markdown()); !strings.HasPrefix(got, begins) ||
		!strings.HasSuffix(got, ends) {
		t.Errorf("%s", got)
	}
	for name, d := range Fixtures() {
		if text := (Answer{Report: d}).Summary(true).Markdown(); !bytes.HasPrefix(text, []byte("### ")) {
			t.Errorf("%s: it begins %.40q", name, text)
		}
		Answer{Report: d}.Summary(false).JUnit()
	}
}
