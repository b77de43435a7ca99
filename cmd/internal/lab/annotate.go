package lab

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/report"
)

// annotate tells GitHub, if it runs this, why something did not pass, so that the page of a build shows it without the
// log. It writes to standard error, which GitHub reads as well, so that an answer for a program stays whole.
func annotate(g *cli.Globals, s summarized) {
	if g.Quiet || g.Env.Getenv("GITHUB_ACTIONS") != "true" {
		return
	}
	verdict, what, reasons := s.Ruling()
	level := map[report.Verdict]string{report.Fail: "error", report.Inconclusive: "warning"}[verdict]
	if level == "" {
		return
	}
	for i := range reasons {
		reasons[i] = output.Printable(reasons[i])
	}
	title := fmt.Sprintf("limitctl: %s: %s", strings.ToUpper(string(verdict)), output.Printable(what))
	fmt.Fprintf(g.Env.Err, "::%s title=%s::%s\n", level, ofProperty.Replace(title), ofMessage.Replace(strings.Join(reasons, "\n")))
}

// What GitHub's commands read as something else than text.
var (
	ofMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	ofProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
