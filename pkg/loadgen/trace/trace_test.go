package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// read reads a log that can be read.
func read(t *testing.T, log string, options Options) *Trace {
	t.Helper()
	got, err := Read(context.Background(), strings.NewReader(log), options)
	tier.Must(t, err)
	return got
}

// listed returns the values of all subjects.
func listed(s *Subjects) (all [][]string) {
	for i := range s.Len() {
		all = append(all, s.At(uint32(i)))
	}
	return all
}

func instant(text string) store.Instant {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return store.InstantOf(at)
}

const apacheLine = `203.0.113.9 - frank [17/May/2015:10:05:03 +0000] ` +
	`"GET /a/b?c=d HTTP/1.1" 200 2326 "http://example.com/x" "Mozilla/5.0 (X)"`

func TestApacheFieldsOfOneLine(t *testing.T) {
	at := instant("2015-05-17T10:05:03Z")
	for _, test := range []struct {
		name, line string
		values     string // of ApacheFields but the time, joined by |
		at         store.Instant
	}{
		{"combined", apacheLine, "203.0.113.9|frank|GET|/a/b|HTTP/1.1|200|2326|http://example.com/x|Mozilla/5.0 (X)",
			at},
		{"common", `203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -`,
			"203.0.113.9||GET|/|HTTP/1.0|304|||", at},
		{"escaped quotes", `h - - [17/May/2015:10:05:03 +0000] "GET /a\"b\\ HTTP/1.1" 200 1 "r\"r" "a\\"`,
			`h||GET|/a\"b\\|HTTP/1.1|200|1|r\"r|a\\`, at},
		{"a scanner's request", `h - - [17/May/2015:10:05:03 +0000] "\x16\x03" 400 0`, `h|||\x16\x03||400|0||`, at},
		{"a path with spaces, of HTTP/0.9", `h - - [17/May/2015:10:05:03 +0000] "GET /a b?c d" 200 0`,
			"h||GET|/a b||200|0||", at},
		{"an agent cut off", `h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "r" "Mozi`,
			"h||GET|/|HTTP/1.1|200|1|r|", at},
		{"a virtual host before it", "example.com:443 " + apacheLine,
			"203.0.113.9|frank|GET|/a/b|HTTP/1.1|200|2326|http://example.com/x|Mozilla/5.0 (X)", at},
		{"a virtual host by its address",
			`[2001:db8::1]:80 2001:db8::7 - a b [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`,
			"2001:db8::7|a b|GET|/|HTTP/1.1|200|1||", at},
		{"a client with its port", `203.0.113.9:5678 - a b [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`,
			"203.0.113.9:5678|a b|GET|/|HTTP/1.1|200|1||", at},
		{"an address that ends in digits", `::80 x a b [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`,
			"::80|a b|GET|/|HTTP/1.1|200|1||", at},
		{"a leap day", `h - - [29/Feb/2016:23:59:59 +0000] "GET / HTTP/1.1" 200 1`, "h||GET|/|HTTP/1.1|200|1||",
			instant("2016-02-29T23:59:59Z")},
	} {
		t.Run(test.name, func(t *testing.T) {
			var further []Field
			for _, name := range ApacheFields() {
				if name != "time" {
					further = append(further, Field{name, true})
				}
			}
			got := read(t, test.line+"\n", Options{Further: further})
			if got.Format != Apache || got.Bad != 0 || len(got.Requests) != 1 {
				t.Fatalf("%+v", got)
			}
			if values := strings.Join(got.Subjects.At(0), "|"); values != test.values || got.Requests[0].At != test.at {
				t.Errorf("%s at %s, want %s at %s", values, got.Requests[0].At.Time(), test.values, test.at.Time())
			}
		})
	}
}

func TestBadLinesAreCountedAndSaid(t *testing.T) {
	for _, test := range []struct {
		options            Options
		good, line, reason string
	}{
		{Options{}, apacheLine, `garbage`, "not in the log format: it has no ip"},
		{Options{}, apacheLine, `h - - "GET / HTTP/1.1" 200 1`, "it has no time such as 17/May"},
		{Options{}, apacheLine, `h - - [31/Jun/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, `its time, "31/Jun/2015:`},
		{Options{}, apacheLine, `h [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`, "it has no time such as"},
		{Options{}, apacheLine, `h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1\" 200 1`, "it has no request"},
		{Options{}, apacheLine, `h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 20 1`, "it has no status"},
		{Options{}, apacheLine, `h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1x`, "it has no bytes"},
		{Options{Key: []string{"user"}}, apacheLine, `h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1`,
			"it has no user"},
		{Options{Cost: "bytes"}, apacheLine, `h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 0`,
			`its bytes is "0", which is not a whole number from 1 to 1000000000`},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":1,"key":"a"`, "not a JSON object"},
		{Options{}, `{"time":1,"key":"a"}`, `{"key":"a"}`, "it has no time"},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":"yesterday","key":"a"}`, `its time, "yesterday", is neither`},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":4102444800,"key":"a"}`, `its time, "4102444800", is neither`},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":1,"key":null}`, "it has no key"},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":1,"key":{"a":"b"}}`, "its key is an object or an array"},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":1,"key":"a","cost":1.5}`, `its cost is "1.5"`},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":1,"key":"a","k\u0065y":null}`, "it has its key twice"},
		{Options{}, `{"time":1,"key":"a","x":1,"x":1}`, `{"time":1,"key":"a","time":2}`, "it has its time twice"},
		{Options{Key: []string{"a.b"}}, `{"time":1,"a":{"b":1}}`, `{"time":1,"a":{"b":1},"a":{}}`,
			"it has its a.b twice"},
		{Options{}, `{"time":1,"key":"a"}`, `{"time":1,"key":"` + strings.Repeat("a", 1025) + `"}`,
			"its key is longer than 1024 bytes"},
		{Options{}, "time,key,cost\n1,a,", `1,a`, "it has 2 values, and the header 3"},
		{Options{}, "time,key,cost\n1,a,", `1,a"b"c,1`, "not a CSV record"},
	} {
		log := test.good + "\n\n" + test.line + "\n   \n" + strings.TrimPrefix(test.good, "time,key,cost\n")
		got := read(t, log, test.options)
		number := int64(strings.Count(test.good, "\n") + 3)
		if got.Bad != 1 || got.Lines != 3 || len(got.Requests) != 2 ||
			got.Requests[0].At != got.Requests[1].At {
			t.Errorf("%s: %+v", test.line, got)
			continue
		}
		bad := got.FirstBad
		if bad.Number != number || !strings.Contains(bad.Reason, test.reason) ||
			!strings.HasPrefix(test.line, strings.TrimSuffix(bad.Excerpt, "…")) {
			t.Errorf("%s: %+v, want line %d and %q", test.line, bad, number, test.reason)
		}
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2015-05-17T10:05:03Z":             "2015-05-17T10:05:03Z",
		"2015-05-17T12:05:03.123456+02:00": "2015-05-17T10:05:03.123456Z",
		"17/May/2015:12:05:03 +0200":       "2015-05-17T10:05:03Z", // nginx's $time_local
		"[17/May/2015:10:05:03 +0000]":     "2015-05-17T10:05:03Z", // Apache's %t
		"2015-05-17T06:35:03.5-0330":       "2015-05-17T10:05:03.5Z",
		"2015-05-17T12:05:03+02":           "2015-05-17T10:05:03Z",
		"2015-05-17 10:05:03.5":            "2015-05-17T10:05:03.5Z",
		"2015-05-17 12:05:03.5 +02:00":     "2015-05-17T10:05:03.5Z",
		"2015-05-17t10:05:03z":             "2015-05-17T10:05:03Z",
		"2016-12-31T23:59:60.25Z":          "2017-01-01T00:00:00.25Z", // a leap second
		"2016-12-31 15:59:60 -08":          "2017-01-01T00:00:00Z",
		"31/Dec/2016:15:59:60 -0800":       "2017-01-01T00:00:00Z",
		"1431857103.5":                     "2015-05-17T10:05:03.5Z",
		"1431857103123.4":                  "2015-05-17T10:05:03.1234Z",
		"1431857103123456":                 "2015-05-17T10:05:03.123456Z",
		"1431857103123456789":              "2015-05-17T10:05:03.123456Z",
		"0":                                "1970-01-01T00:00:00Z",
		"4102444799.999999":                "2099-12-31T23:59:59.999999Z",
	} {
		for _, log := range []string{`{"time":"` + text + `","key":"a"}`, "key,time\na," + text, `{"key":"a","time":` +
			text + `}`} {
			if !json.Valid([]byte(log)) && log[0] == '{' {
				continue // the time needs its quotes
			}
			if got := read(t, log, Options{}); got.Requests[0].At != instant(want) {
				t.Errorf("%s is read as %s, want %s", log, got.Requests[0].At.Time(), want)
			}
		}
	}
	for _, text := range []string{"", ".", "1.", ".5", "1,5", "1e30", "-5", "+5", "0x10", "NaN", "Infe",
		"99999999999999999999",
		"2015-05-17", "2015-13-17T10:05:03Z", "1969-12-31T23:59:59Z", "1431857103.x", "1431857103.0000000000000000000-",
		"9999999999999999999", "2016-12-31T23:58:60Z", "2016-12-31T23:59:61Z", "31/Dec/2016:15:59:60 -0700",
		"31/Dec/2016:15:59:59 0700",
		"2015-05-17T10:05:03+020", "2015-05-17T10:05:03+02:",
		"2015-05-17T10:05:03 ", "[1431857103"} {
		if at, _, ok := parseTime([]byte(text)); ok {
			t.Errorf("%q is read as %s", text, at.Time())
		}
	}
}

func TestNamedFields(t *testing.T) {
	const objects = `{"at":1,"req":{"ip":"a","n":{"x":true}},"req.b":"c","units":3}
{"at":2,"req":{"ip":"a","n":{"x":true}},"req.b":"c","units":"4"}
{"at":3,"req":{"ip":"A\u00e9\"","n":{"x":7}},"req.b":"c"}
{"at":4,"req":{"ip":"a"},"req.b":"c"}`
	got := read(t, objects, Options{Time: "at", Cost: "units", Key: []string{"req.ip", "req.b"},
		Further: []Field{{"req.n.x", true}, {"nowhere", true}, {"req.ip", true}}})
	if !slices.Equal(got.Fields, []string{"req.ip", "req.b", "req.n.x", "nowhere"}) {
		t.Errorf("the fields are %q", got.Fields)
	}
	const want = "[{1000000 0 3} {2000000 0 4} {3000000 1 1} {4000000 2 1}] [[a c true ] [Aé\" c 7 ] [a c  ]]"
	if text := fmt.Sprint(got.Requests, listed(got.Subjects)); text != want {
		t.Error(text)
	}
	const table = "\ufeffip,\"when\",what,,\r\n\r\na,1,\"x,\"\"y\",,\r\n\"b\",2,,,\r\na,3,\"x,\"\"y\",,"
	got = read(t, table, Options{Time: "when", Key: []string{"ip"}, Further: []Field{{"what", true}, {"none", true}}})
	const inCSV = "csv [{1000000 0 1} {2000000 1 1} {3000000 0 1}] [[a x,\"y ] [b  ]]"
	if text := fmt.Sprint(got.Format, got.Requests, listed(got.Subjects)); text != inCSV {
		t.Error(text)
	}
}

func TestALogThatIsNone(t *testing.T) {
	for _, test := range []struct {
		log     string
		options Options
		want    string
	}{
		{"", Options{}, "the log is empty"},
		{"time,key\n", Options{}, "a header and no lines"},
		{"hello\nworld\n", Options{}, `the log's format cannot be told from its first line, "hello"`},
		{"when,key\n1,a\n", Options{}, `nor a CSV header with a column "time"`},
		{"hello\n", Options{Nginx: "$remote_addr [$time_local]"},
			`no line of the log can be read as the format given; line 1, "hello": `},
		{"hello\nworld\n", Options{Format: Apache},
			`no line of the log can be read as apache; line 1, "hello": it is not in`},
		{`{"ts":1,"who":{"ip":"a"}}`, Options{}, "it has no time (there are ts, who.ip)"},
		{`{"time":1,"who":{"ip":"a"}}`, Options{}, "it has no key (there are time, who.ip)"},
		{`{"time":1,"key":"a"}`, Options{Cost: "units"}, `the log has no field "units"; there are key, time`},
		{"time,key\n1,a\n", Options{Cost: "units"}, `the log has no field "units"; there are time, key`},
		{"time,key,key\n1,a,b\n", Options{}, `the header has the column "key" twice`},
		{`{"time":1,"key":"` + strings.Repeat("a", chunkSize), Options{},
			`aa…": that is longer than 1048576 bytes; say the format`},
		{"time,key," + strings.Repeat("a", chunkSize), Options{Format: CSV},
			`aa…", is longer than 1048576 bytes; a CSV header`},
		{"\"time,key\n1,a\n", Options{Format: CSV}, "is not a CSV header"},
		{apacheLine, Options{Key: []string{"user_id"}},
			`the log has no field "user_id"; there are ip, user, time, method, path, protocol, status, bytes, referer, agent`},
		{apacheLine, Options{Time: "when"}, `the time of an access log is its field "time"`},
		{"\x1f\x8b", Options{}, "its gzip is cut off"},
		{"\x1f\x8bnot gzip at all", Options{}, "its gzip is damaged"},
	} {
		_, err := Read(context.Background(), strings.NewReader(test.log), test.options)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(fmt.Sprint(err), test.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %s", test.log, err, test.want)
		}
	}
}

func TestAFormatIsFoundBehindBadLines(t *testing.T) {
	for want, log := range map[Format]string{
		Apache:    "\nstarting up\n{\n" + apacheLine,
		JSONLines: "starting up\n" + `{"time":1,"key":"a"}`,
	} {
		if got := read(t, log, Options{}); got.Format != want || len(got.Requests) != 1 {
			t.Errorf("%q is read as %s", log, got.Format)
		}
	}
	if f, err := ParseFormat("jsonl"); f != JSONLines || err != nil {
		t.Error(f, err)
	}
	if _, err := ParseFormat("nginx"); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(err.Error(), "auto, apache, jsonl, csv") {
		t.Error(err)
	}
}

// Sorting keeps the order of requests with the same instant.
func TestLinesOutOfOrder(t *testing.T) {
	got := read(t, "time,key\n5,a\n3,b\n5,c\n4,d\n3,e\n5,f\n", Options{})
	var order strings.Builder
	for _, r := range got.Requests {
		order.WriteString(got.Subjects.At(r.Subject)[0])
	}
	if order.String() != "bedacf" || got.OutOfOrder != 3 {
		t.Errorf("%s, %d out of order", &order, got.OutOfOrder)
	}
}

// manyLines is a log of several chunks in which every line has a different number, and some are bad.
func manyLines(lines int) (log string, bad int64) {
	var b strings.Builder
	begin := time.Date(2015, time.May, 17, 0, 0, 0, 0, time.UTC)
	for i := range lines {
		if i%1000 == 999 {
			b.WriteString("bad\n")
			bad++
			continue
		}
		fmt.Fprintf(&b, "10.0.%d.%d - - [%s] \"GET /%d HTTP/1.1\" 200 %d \"-\" \"%s\"\n", i%7, i%250,
			begin.Add(time.Duration(i)*time.Second).Format(apacheTime), i, i+1, strings.Repeat("x", i%300))
	}
	return b.String(), bad
}

// The requests do not depend on how the log is cut into reads and chunks, or compressed.
func TestChunksAndGzipDoNotShow(t *testing.T) {
	const lines = 20_000
	log, bad := manyLines(lines)
	if len(log) < 3*chunkSize {
		t.Fatal("the log is too short for several chunks")
	}
	options := Options{Key: []string{"ip", "path"}, Cost: "bytes"}
	want := read(t, log, options)
	if want.Bad != bad || want.Lines != lines || int64(len(want.Requests)) != lines-bad || want.OutOfOrder != 0 {
		t.Fatalf("%d bad of %d, %d requests", want.Bad, want.Lines, len(want.Requests))
	}
	for i, r := range want.Requests {
		if i > 0 && r.At <= want.Requests[i-1].At {
			t.Fatal("not in the log's order")
		}
		if path := want.Subjects.At(r.Subject)[1]; path != fmt.Sprintf("/%d", r.Cost-1) {
			t.Fatalf("request %d of %d units is for %s", i, r.Cost, path)
		}
	}
	if want.FirstBad.Number != 1000 {
		t.Errorf("the first bad lines are %+v", want.FirstBad)
	}
	packed := pack(t, log)
	for name, in := range map[string]io.Reader{
		"half reads":            iotest.HalfReader(strings.NewReader(log)),
		"the end with an error": iotest.DataErrReader(strings.NewReader(log)),
		"gzip":                  bytes.NewReader(packed),
		"gzip, byte by byte":    iotest.OneByteReader(bytes.NewReader(packed)),
		"two gzips, padded": io.MultiReader(bytes.NewReader(pack(t, log[:len(log)/2])), bytes.NewReader(pack(t, "")),
			bytes.NewReader(pack(t, log[len(log)/2:])), io.LimitReader(zeros{}, 5000)),
	} {
		got, err := Read(context.Background(), in, options)
		if err != nil {
			t.Fatal(name, err)
		}
		if !slices.Equal(got.Requests, want.Requests) ||
			!slices.EqualFunc(listed(got.Subjects), listed(want.Subjects), slices.Equal) ||
			got.Bad != bad {
			t.Errorf("%s: it is read differently", name)
		}
	}
}

func pack(t *testing.T, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	tier.Must(t, w.Close())
	return b.Bytes()
}

func TestADamagedGzip(t *testing.T) {
	log, _ := manyLines(20_000)
	packed := pack(t, log)
	flipped := bytes.Clone(packed)
	flipped[len(flipped)-8] ^= 1 // of the checksum
	for want, damaged := range map[string][]byte{"its gzip is cut off": packed[:len(packed)/2],
		"its gzip is damaged (gzip: invalid header)":   append(bytes.Clone(packed), "\x00\n"...),
		"its gzip is damaged (gzip: invalid checksum)": flipped} {
		if _, err := Read(context.Background(), bytes.NewReader(damaged), Options{}); !errors.Is(
			err, store.ErrInvalid) ||
			err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestOverlongLinesAreBad(t *testing.T) {
	long := strings.Repeat("x", 3*chunkSize+5)
	for _, log := range []string{
		long + "\n" + apacheLine + "\n" + long + "\n" + apacheLine + "\n" + long,
		apacheLine + "\n" + long + "\n" + long[:chunkSize+1] + "\n" + apacheLine + " " + long[:chunkSize/2] + "\n" +
			long[:chunkSize] + "\n",
	} {
		got := read(t, log, Options{Format: Apache})
		if got.Bad != 3 || got.Lines != 5 || len(got.Requests) != 2 ||
			!strings.Contains(got.FirstBad.Reason, "it is longer than 1048576 bytes") ||
			len(got.FirstBad.Excerpt) > 100 {
			t.Errorf("%d of %d bad, %d requests: %+v", got.Bad, got.Lines, len(got.Requests), got.FirstBad)
		}
	}
}

func TestReadErrorsAndTheEndOfTheContext(t *testing.T) {
	broken := errors.New("broken disk")
	if _, err := Read(context.Background(),
		io.MultiReader(strings.NewReader(apacheLine+"\n"), iotest.ErrReader(broken)),
		Options{}); !errors.Is(err, broken) {
		t.Errorf("it says %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	waiting, writer := io.Pipe() // from which nothing more ever comes
	defer writer.Close()
	go func() {
		io.WriteString(writer, apacheLine)
		cancel()
	}()
	if _, err := Read(ctx, waiting, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
}
