package junit

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"
)

func TestXML(t *testing.T) {
	got := string(XML(Suite{
		Name: "ten", Began: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Took: 90 * time.Second,
		Cases: []Case{
			{Name: "p99<5ms", Said: "p99<5ms: 2ms"},
			{Name: "over-admission", Failed: "ten too many"},
			{Name: "b", Skipped: "not reached"},
		},
	}))
	want := `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1">
  <testsuite name="ten" tests="3" failures="1" errors="0" skipped="1" time="90.000" timestamp="2026-03-01T12:00:00">
    <testcase classname="ten" name="p99&lt;5ms"><system-out>p99&lt;5ms: 2ms</system-out></testcase>
    <testcase classname="ten" name="over-admission"><failure message="ten too many">ten too many</failure></testcase>
    <testcase classname="ten" name="b"><skipped message="not reached"></skipped></testcase>
  </testsuite>
</testsuites>
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Parsers can read the document, whatever foreign texts it contains.
func TestTextsOfOthers(t *testing.T) {
	text := XML(Suite{Name: "a\x00\x1b]0;b\xff",
		Cases: []Case{{Said: "]]>", Name: `<x a="b">&`, Failed: "\ufffe\u202e\r\n"}}})
	decoder := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		if _, err := decoder.Token(); err != nil {
			if err.Error() != "EOF" {
				t.Errorf("%v in %q", err, text)
			}
			return
		}
	}
}
