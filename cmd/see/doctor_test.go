package see

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/internal/doctor"
	"github.com/limitctl/limitctl/internal/output"
)

// Findings fit the terminal, and what several servers have in common is said once.
func TestFindingsFitTheTerminal(t *testing.T) {
	summary := strings.Repeat("what was found and more of it ", 5)
	report := &doctor.Report{Findings: []doctor.Finding{
		{Check: "reachable", Status: doctor.OK, Server: "10.0.0.1:6379", Summary: "fine"},
		{Check: "persistence", Status: doctor.Warn, Server: "10.0.0.1:6379", Summary: summary, Advice: summary},
		{Check: "persistence", Status: doctor.Warn, Server: "10.0.0.2:6379", Summary: summary, Advice: summary},
		{Check: "persistence", Status: doctor.Fail, Server: "10.0.0.3:6379", Summary: "rl:{" + strings.Repeat(
			"日本語", 40) + "}:x"},
	}}
	for _, columns := range []int{0, 20, 40, 80, 200} {
		var b strings.Builder
		p := &output.Printer{Out: &b, Width: columns, Color: columns > 0}
		(&doctorAnswer{report}).Print(p)
		text := clitest.Strip(b.String())
		for line := range strings.Lines(text) {
			if width := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); columns > 0 &&
				width > max(columns, len("1 problem, 2 warnings, 1 fine")) {
				t.Errorf("%d columns on a terminal of %d: %s", width, columns, line)
			}
		}
		if strings.Count(text, "! persistence") != 1 || !strings.Contains(text, "2 servers") ||
			!strings.Contains(text, "✗ persistence") ||
			!strings.HasSuffix(text, "\n1 problem, 2 warnings, 1 fine\n") ||
			columns == 0 && strings.Count(text, "\n") != 5 {
			t.Errorf("on %d columns:\n%s", columns, text)
		}
		if (columns > 0) != strings.Contains(b.String(), "\x1b[31m✗") {
			t.Errorf("on %d columns the colours are wrong:\n%q", columns, b.String())
		}
	}
	if n := len(report.Findings); n != 4 || report.Findings[1].Server != "10.0.0.1:6379" {
		t.Errorf("printing changed the report: %+v", report.Findings)
	}
}
