package trace

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// combined is nginx's combined format in its own words.
const combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent ` +
	`"$http_referer" "$http_user_agent"`

// nginx's combined format reads as the known format does, whatever is in a line.
func TestNginxCombined(t *testing.T) {
	lines := []string{apacheLine,
		`2001:db8::1 - a [b] [17/May/2015:10:05:03 +0000] "GET /a?b=[17/May/2015:10:05:03] HTTP/1.1" 200 1 "-" "\"b\" [c]"`,
		`203.0.113.9 - - [17/May/2015:10:05:04 +0200] "\x16\x03\x01" 400 166 "-" "-"`,
		`203.0.113.9 - - [17/May/2015:10:05:04 +0000] "-" 408 0 "" ""`,
		`203.0.113.9 - - [32/May/2015:10:05:04 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`,
		`203.0.113.9 - - [17/May/2015:10:05:04 +0000] "GET / HTTP/1.1" okay 1 "-" "-"`,
		"\xff\xfe - - [17/May/2015:10:05:05 +0000] \"GET /\xff HTTP/1.1\" 200 1 \"-\" \"\xff\"",
		strings.Repeat("[", 100_000), `"`, "$remote_addr"}
	for _, key := range ApacheFields() {
		if key == "time" {
			continue
		}
		options := Options{Further: []Field{{key, true}, {"method", true}}, Key: []string{"ip"}, Format: Apache}
		want := read(t, strings.Join(lines, "\n"), options)
		options.Nginx = combined
		got := read(t, strings.Join(lines, "\n"), options)
		got.FirstBad, want.FirstBad = BadLine{}, BadLine{} // whose reasons differ
		if !reflect.DeepEqual(got, want) || got.Bad != 5 {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
	}
}

func TestNginxFormats(t *testing.T) {
	got := read(t, "x|1431857103.5|7|-\n", Options{Nginx: `${host}|$msec|$upstream_cost|$uri`, Key: []string{"host"},
		Further: []Field{{"path", true}}, Cost: "upstream_cost"})
	if r := got.Requests[0]; r.At != instant("2015-05-17T10:05:03.5Z") || r.Cost != 7 ||
		fmt.Sprint(got.Subjects.At(0)) != "[x ]" {
		t.Errorf("%+v", got)
	}
	if _, err := Read(t.Context(), strings.NewReader("x y - 1431857103.5\n"),
		Options{Nginx: "$remote_addr - $msec"}); err == nil {
		t.Error("an address has a space")
	}
	for format, want := range map[string]string{
		"$remote_addr $status":       "the log format has no time; add $time_local, ",
		"$remote_addr$time_local":    "has no text before $time_local",
		"$host $time_local":          `the log has no field "ip"; there are host, time`,
		"$remote_addr [$time_local]": "line 1, \"x|1431857103.5|7|-\": it is not in the log format",
	} {
		_, err := Read(t.Context(), strings.NewReader("x|1431857103.5|7|-\n"), Options{Nginx: format})
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", format, err)
		}
	}
}
