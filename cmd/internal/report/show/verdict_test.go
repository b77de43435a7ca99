package show

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/sample"
)

// judged is a document with a run on a limit of 100/1s, as change makes it.
func judged(change func(*report.Run)) *report.Document {
	d := report.New(report.LoadTest)
	run := sample.LoadRun("token-bucket", 1, 1, 0)
	change(&run)
	run.Limits[0].Denied = run.Denied
	run.Limits[0].Audit = run.Audit
	d.Runs = []report.Run{run}
	return d
}

// The verdict is first, with a sentence that says why: the least that explains it.
func TestVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*report.Run)
		want   string // the first line, without the spaces after the verdict
		failed bool
	}{
		"right": {func(*report.Run) {}, "PASS the audit found nothing wrong", false},
		"over": {
			func(r *report.Run) { r.Audit.OverAdmitted, r.Audit.LeastOver, r.Audit.KeysOver = 3938, 10, 10 },
			"FAIL admitted 10 units too many on 10 keys", true,
		},
		"over, of an old version": {func(r *report.Run) { r.Audit.OverAdmitted = 3938 }, "FAIL admitted 3,938 units too many", true},
		"under": {
			func(r *report.Run) { r.Audit.UnderAdmitted, r.Audit.LeastUnder = 40, 3 }, "FAIL denied 3 units that fitted", true,
		},
		"under, as explained": {
			func(r *report.Run) { r.Audit.UnderAdmitted, r.Audit.UnderExplained = 40, true }, "PASS the audit found nothing wrong", false,
		},
		"doubtful": {func(r *report.Run) { r.Audit.OverAdmitted, r.Audit.Doubtful = 40, true }, "PASS the audit found nothing wrong",
			false},
		"a lie": {
			func(r *report.Run) {
				r.Audit.Lies = &report.Lies{Checked: 9, Wrong: 2, Fields: []report.Lie{{
					Field: "retry_after", Answers: 2, Key: "user:3", At: time.Date(2026, 3, 1, 12, 0, 1, 2000, time.UTC), Reported: "5ms",
					True: "10ms",
				}}}
			},
			"FAIL retry-after was told as 5ms and is 10ms, at 12:00:01.000002 of user:3; 2 answers told it wrong", true,
		},
		"only errors": {
			func(r *report.Run) { r.Errors, r.Allowed, r.Denied = r.Requests, 0, 0 }, "FAIL no request was answered", true,
		},
		"a store that disagrees": {
			func(r *report.Run) { r.Disagreements = 2 }, "FAIL the store decided 2 requests otherwise than limitctl computes", true,
		},
	} {
		d := judged(test.change)
		line, _, _ := strings.Cut(sample.Printed(Answer{d}, 0), "\n")
		if got := strings.Join(strings.Fields(line), " "); got != test.want || d.AuditFailed() != test.failed {
			t.Errorf("%s: %s, failed %t", name, got, d.AuditFailed())
		}
		var document struct {
			Verdict report.Verdict
			Reasons []string
		}
		text, err := json.Marshal(Answer{d}.Document())
		if err == nil {
			err = json.Unmarshal(text, &document)
		}
		if err != nil || (document.Verdict == report.Fail) != test.failed || (len(document.Reasons) > 0) != test.failed {
			t.Errorf("%s: %+v, %v", name, document, err)
		}
	}
}

// A run that never reached its limit says so, and names a rate at which it would have.
func TestALimitThatWasNeverReached(t *testing.T) {
	d := judged(func(r *report.Run) {
		r.Denied, r.Allowed, r.Requests, r.Rate, r.DurationMS = 0, 3000, 3000, 100, 30_000
		r.Audit.WorstRatio, r.Audit.LimitReached, r.Audit.KeySums = 0.07, sample.Pointer(0.07), nil
		r.Heat = []report.HeatGroup{{Keys: 1, Allowed: 300}, {Keys: 9, Allowed: 2700}}
	})
	text := sample.Printed(Answer{d}, 0)
	// The busiest key asks 10 times a second, where 10 and 100/30 are needed: 13.4, and a fifth more.
	const want = "never above 7% of the limit, so over-admission was not tested; try --rate 160"
	if !strings.Contains(text, want) || d.AuditFailed() {
		t.Errorf("%q is missing in\n%s", want, text)
	}
	if junit := string(Answer{d}.JUnit()); !strings.Contains(junit, `<skipped message="never above 7% of the limit"`) {
		t.Errorf("%s", junit)
	}
	d.Runs[0].Limits[0].Denied = 1 // a request that cost more than was left
	if text := sample.Printed(Answer{d}, 0); strings.Contains(text, "not tested") {
		t.Errorf("%s", text)
	}
}

// Nothing of a text of others becomes a heading, a link or markup of a summary.
func TestSummaries(t *testing.T) {
	for name, d := range sample.Fixtures() {
		text := (Answer{d}).Markdown()
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "<script") && !strings.Contains(line, "`") && !strings.Contains(line, `\<script`) {
				t.Errorf("%s: %s", name, line)
			}
		}
		if !bytes.HasPrefix(text, []byte("### ")) {
			t.Errorf("%s: it begins %.40q", name, text)
		}
		(Answer{d}).JUnit()
	}
	const want = "### ❌ FAIL: load test of `token-bucket 100/10s`\n\n- denied\\<50% was missed: 65.224%\n\n"
	if got := string(Answer{sample.OneRun()}.Markdown()); !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
}
