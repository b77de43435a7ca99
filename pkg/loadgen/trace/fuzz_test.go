package trace

import (
	"bytes"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Each reader is compared with a slow one that reads the same lines in another way.

var apacheLines = regexp.MustCompile(`^([^ ]+) ([^ ]+) (.+?) ` +
	`\[(\d\d/(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] ` +
	`"((?s:[^"\\]|\\.)*)" (\d{3}|-) (\d+|-)(?: .*)?$`)

func FuzzApache(f *testing.F) {
	f.Add([]byte(apacheLine))
	f.Add([]byte(`2001:db8::7 - a b [17/May/2015:10:05:03 -0230] "GET /\"x\\ HTTP/1.1" - - "r" "a`))
	f.Add([]byte(`h - - [29/Feb/2015:10:05:03 +0000] "" 200 1`))
	f.Add([]byte(`h - [31/Dec/2015:23:59:59 +0000] [01/Jan/2016:00:00:00 +0000] "-" 200 1`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 || bytes.HasSuffix(line, []byte("\r")) {
			return
		}
		format, err := newAccessFormat("")
		if err != nil {
			t.Fatal(err)
		}
		values := make([][]byte, len(ApacheFields()))
		reason := newAccessParser(format, ApacheFields()).parse(line, values)
		var when store.Instant
		if reason == "" {
			var ok bool
			if when, _, ok = parseTime(values[2]); !ok {
				reason = "no time"
			}
		}
		if !utf8.Valid(line) || bytes.Count(line, []byte(" [")) > 1 || bytes.Contains(line, []byte(":60 ")) {
			return // the expression reads runes and no leap seconds, and takes the first time even if it is no date
		}
		m := apacheLines.FindSubmatch(line)
		at := time.Time{}
		if m != nil {
			at, err = time.Parse(apacheTime, string(m[4]))
		}
		good := m != nil && err == nil && at.Unix() >= 0 && store.InstantOf(at) < maxInstant
		if good != (reason == "") {
			t.Fatalf("%q: %q, and the expression says %v", line, reason, good)
		}
		if !good {
			return
		}
		for i, group := range map[int]int{0: 1, 1: 3, 6: 6, 7: 7} {
			if want := string(m[group]); string(values[i]) != want && !(want == "-" && values[i] == nil) {
				t.Errorf("%q: field %d is %q, want %q", line, i, values[i], want)
			}
		}
		if when != store.InstantOf(at) {
			t.Errorf("%q: at %s, want %s", line, when.Time(), at)
		}
	})
}
