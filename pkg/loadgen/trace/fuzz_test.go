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
		r := &record{values: make([][]byte, len(ApacheFields()))}
		p := new(plan)
		for _, name := range ApacheFields() {
			p.want(Field{name, true})
		}
		reason := newApacheParser(p).parse(line, r)
		if !utf8.Valid(line) || bytes.Count(line, []byte(" [")) > 1 {
			return // the expression reads runes, and takes the first time even if it is no date
		}
		m := apacheLines.FindSubmatch(line)
		at, err := time.Time{}, error(nil)
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
		for i, group := range map[int]int{apacheIP: 1, apacheUser: 3, apacheStatus: 6, apacheBytes: 7} {
			if want := string(m[group]); string(r.values[i]) != want && !(want == "-" && r.values[i] == nil) {
				t.Errorf("%q: field %d is %q, want %q", line, i, r.values[i], want)
			}
		}
		if r.at != store.InstantOf(at) {
			t.Errorf("%q: at %s, want %s", line, r.at.Time(), at)
		}
	})
}
