package show

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/report/sample"
)

// What others than the limit answered is shown apart: in the words, in a table of its own
// with its own latency, over time, and on the page.
func TestAnswersByOthersAreShownApart(t *testing.T) {
	d := sample.Outage()
	text := sample.Printed(Answer{d}, 0)
	for _, want := range []string{
		"4,000 decided locally", "600 unguarded", "200 failed (0.6%)",
		"✗ the failure policy answered 600 requests, because the store was away (1.7%): 600 let in, 0 turned away",
		"! a local share of the limit decided 4,000 requests, because the store was away (11%)",
		"DECIDED BY", "denial-memory",
		"\nlocal      ····················█", "\nerrors     ····················▁",
		"✓ local_p99<1ms", "✓ unguarded<=2%",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	row := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "failure-policy") {
			row = line
		}
	}
	if fields := strings.Fields(row); len(fields) < 5 || fields[1] != "600" || fields[2] != "600" || fields[3] != "0" || fields[5] != "ms" {
		t.Errorf("the failure policy's row is %q", row)
	}
	var page strings.Builder
	if err := (Answer{d}).HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Who decided", `<path class="local"`, `<path class="unguarded"`, `<span class="key local">`, "denial-memory",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is missing on the page", want)
		}
	}
	if sound := sample.Printed(Answer{sample.OneRun()}, 0); strings.Contains(sound, "DECIDED BY") || strings.Contains(sound, "\nlocal") {
		t.Errorf("a run that the store alone decided shows others:\n%s", sound)
	}
}
