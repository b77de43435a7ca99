package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// recorded reads a file, and writes down each request: the bounds in µs since 1e15, subject, status and Retry-After.
func recorded(t *testing.T, file string, keys ...string) (requests []string, of Recording, err error) {
	t.Helper()
	whole := new(Trace)
	of, err = ReadRecorded(t.Context(), strings.NewReader(file), Options{Key: keys}, whole, func(r *Recorded) {
		requests = append(requests, fmt.Sprintf("%d-%d %s %d %s", r.Sent-1e15, r.Answered-1e15,
			strings.Join(whole.Subjects.At(r.Subject), "+"), r.Status, r.Header.Get("Retry-After")))
	})
	return requests, of, err
}

// What vegeta 12.13 wrote, k6's documented lines, and files of other programs. Times are as exact as they are
// written.
func TestRecordedRequests(t *testing.T) {
	const (
		vegetaJSON = `{"seq":0,"code":200,"timestamp":"2001-09-09T03:46:41.0000005+02:00","latency":1500400,` +
			`"error":"","body":null,"method":"GET","url":"http://x/?user=u%201","headers":{"X-Who":["me"]}}` + "\n" +
			`{"seq":1,"code":429,"timestamp":"2001-09-09T01:46:42Z","latency":2000,` +
			`"error":"429","body":"eA==","url":"http://x/?user=u2","headers":{"Retry-After":["7"],"X-Who":["me"]}}` +
			"\n" +
			`{"code":0,"timestamp":"2001-09-09T01:46:43.000001Z","latency":0,"url":"?user=u2","headers":null}` + "\n"
		k6JSON = `{"type":"Metric","data":{"type":"trend","contains":"time"},"metric":"http_req_duration"}` + "\n" +
			`{"type":"Point","data":{"time":"2001-09-09T01:46:41.5Z","value":5,"tags":null},"metric":"vus"}` + "\n" +
			`{"type":"Point","data":{"time":"2001-09-09T01:46:41.002Z","value":1.5,"tags":{"status":"429",` +
			`"user":"u","group":"g"}},"metric":"http_req_duration"}` + "\n"
		k6CSV = "metric_name,timestamp,metric_value,check,error,status,url,extra_tags,metadata\n" +
			"http_reqs,1000000001,1.000000,,,200,http://x,user=u,\n" +
			"http_req_duration,1000000001,1.500000,,,200,http://x,a=b&user=u,\n" +
			"http_req_duration,1000000001002,1.500000,,timeout,0,http://x,,\n"
		lines = `{"start":1000000001.0001,"end":1000000001.25,"subject":"u","status":429,"headers":{"retry-after":"9"}}` +
			"\n\n" +
			`{"start":"2001-09-09T01:46:41Z","end":"2001-09-09T01:46:41Z","status":"200"}` + "\n"
		table = "start,end,subject,status,headers\n" +
			`1000000001.000001,1000000001.000002,u,429,"{""Retry-After"": [""9""]}"` + "\n"
	)
	for name, test := range map[string]struct {
		file, program string
		headers       bool
		keys, want    []string
	}{
		"vegeta's JSON, a query": {vegetaJSON, "vegeta", true, []string{"user"},
			[]string{"1000000-1001502 u 1 200 ", "2000000-3000002 u2 429 7", "3000001-3000002 u2 0 "}},
		"k6's JSON, a tag":    {k6JSON, "k6", false, []string{"user"}, []string{"1000500-1003000 u 429 "}},
		"k6's JSON, two tags": {k6JSON, "k6", false, []string{"group", "user"}, []string{"1000500-1003000 g+u 429 "}},
		"k6's CSV":            {k6CSV, "k6", false, nil, []string{"998500-2000000  200 ", "1000500-1003000  0 "}},
		"JSON lines": {lines, "jsonl", true, nil,
			[]string{"1000050-1260000 u 429 9", "500000-2000000  200 "}},
		"CSV": {table, "csv", true, nil, []string{"1000001-1000003 u 429 9"}},
		"CSV without the rest": {"end,start\n1000000002,1000000001\n", "csv", false, nil,
			[]string{"500000-3000000  0 "}},
		"vegeta's JSON, header": {vegetaJSON[:strings.Index(vegetaJSON, "\n")], "vegeta", true, []string{"x-who"},
			[]string{"1000000-1001502 me 200 "}},
	} {
		got, of, err := recorded(t, test.file, test.keys...)
		if err != nil || of != (Recording{test.program, test.headers}) || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %+v, %v; want %q", name, got, of, err, test.want)
		}
	}
}

// A line that cannot be read is an error: an answer that is missing would make others look wrong.
func TestRecordsThatCannotBeRead(t *testing.T) {
	const sound = `{"start":1,"end":2,"status":200}` + "\n"
	for file, want := range map[string]string{
		"":                            "it is empty",
		`{"start":1,"end":2`:          "its first line, ",
		sound + `{"start":1,"end":2,`: "line 2, \"{\\\"start\\\":1,\\\"end\\\":2,\": it is not a JSON object",
		sound + `{"start":3,"end":1}`: "its end is before its start",
		`{"start":"2001-09-09 01:46:41","end":2}`:                   `its start, "2001-09-09 01:46:41", is neither`,
		`{"start":1,"end":2,"status":"none"}`:                       `its status, "none", is not a status`,
		`{"start":1,"end":2,"status":1000}`:                         `its status, "1000", is not a status`,
		`{"start":1,"end":2,"headers":{"a":1}}`:                     "its headers are not",
		`{"timestamp":1,"latency":-1}`:                              "its latency, \"-1\", is not a duration",
		"start,end\n1,2,3\n":                                        "it has 3 values, and the header 2",
		`{"start":1,"end":2,"x":"` + strings.Repeat("a", chunkSize): `aaa…", is longer than`,
		sound + `{"x":"` + strings.Repeat("a", chunkSize) + "\n":    "it is longer than",
	} {
		_, _, err := recorded(t, file)
		if !errors.Is(err, store.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.60q: %.300v; want %q", file, err, want)
		}
	}
	if _, _, err := recorded(t, sound, "user"); !strings.Contains(fmt.Sprint(err), "it has no user") {
		t.Error(err)
	}
}
