// Package junit writes test results as JUnit XML, which CI systems read and show.
package junit

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"
)

// Suite is a set of tests, such as one run.
type Suite struct {
	Name  string
	Began time.Time // may be zero
	Took  time.Duration
	Cases []Case
}

// Case is one test. It passed if it neither failed nor was skipped.
type Case struct {
	Name string // the tested thing
	// Failed says what is wrong, and Skipped why the result is unknown; both are empty for a test that passed.
	Failed, Skipped string
	// Said has more information for readers.
	Said string
}

// XML returns the suites as a document. What XML cannot contain becomes U+FFFD.
func XML(suites ...Suite) []byte {
	var b strings.Builder
	tests, failures := 0, 0
	for _, s := range suites {
		var cases strings.Builder
		failed, skipped := 0, 0
		for _, c := range s.Cases {
			fmt.Fprintf(&cases, "    <testcase classname=%s name=%s>", quoted(s.Name), quoted(c.Name))
			switch {
			case c.Failed != "":
				failed++
				fmt.Fprintf(&cases, "<failure message=%s>%s</failure>", quoted(c.Failed), escaped(c.Failed))
			case c.Skipped != "":
				skipped++
				fmt.Fprintf(&cases, "<skipped message=%s></skipped>", quoted(c.Skipped))
			}
			if c.Said != "" {
				fmt.Fprintf(&cases, "<system-out>%s</system-out>", escaped(c.Said))
			}
			cases.WriteString("</testcase>\n")
		}
		began := ""
		if !s.Began.IsZero() {
			began = fmt.Sprintf(" timestamp=%q", s.Began.UTC().Format("2006-01-02T15:04:05"))
		}
		fmt.Fprintf(&b, `  <testsuite name=%s tests="%d" failures="%d" errors="0" skipped="%d" time="%.3f"%s>`,
			quoted(s.Name), len(s.Cases), failed, skipped, s.Took.Seconds(), began)
		fmt.Fprintf(&b, "\n%s  </testsuite>\n", &cases)
		tests, failures = tests+len(s.Cases), failures+failed
	}
	return fmt.Appendf(nil, "%s<testsuites tests=\"%d\" failures=\"%d\">\n%s</testsuites>\n", xml.Header, tests,
		failures, &b)
}

// escaped returns a text as character data.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder fails never
	return b.String()
}

// quoted returns a text as the value of an attribute.
func quoted(text string) string { return `"` + escaped(text) + `"` }
