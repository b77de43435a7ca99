package headers

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/texts"
)

var readAt = time.Unix(1_700_000_000, 0)

// header makes a header of lines.
func header(lines string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(lines) {
		if name, value, found := strings.Cut(strings.TrimRight(line, "\n"), ": "); found {
			h.Add(name, value)
		}
	}
	return h
}

// lines writes what was read of the limits of each dialect.
func (r *Reading) lines() (lines []string) {
	for _, limits := range r.families() {
		line := limits[0].Dialect
		for _, l := range limits {
			line += fmt.Sprintf(" %s%d/%.3g left %d", l.name, l.Count, l.Window.Seconds(), l.Remaining)
			if l.HasReset {
				line += " reset " + l.Reset.String()
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestDialects(t *testing.T) {
	for _, test := range []struct {
		what, lines string
		want        []string
	}{
		{"draft-10",
			"RateLimit-Policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400\nRateLimit: \"burst\";r=50;t=30, " +
				"\"daily\";r=900;t=3600\n",
			[]string{"draft-8 burst100/60 left 50 reset 30s daily1000/8.64e+04 left 900 reset 1h0m0s"}},
		{"lists over several lines", "RateLimit-Policy: \"a\";q=1\nRateLimit-Policy: \"b\";q=2\nRateLimit: \"b\";r=1\n",
			[]string{"draft-8 b2/-1e-09 left 1"}},
		{"other units and partitions", "RateLimit-Policy: \"p\";q=65535;qu=\"content-bytes\";w=10;pk=:sdfjLJUOUH==:\n",
			[]string{"draft-8 p65535/10 left -1"}},
		{"draft-7", "RateLimit: limit=100, remaining=50, reset=30\nRateLimit-Policy: 100;w=60\n",
			[]string{"draft-7 100/60 left 50 reset 30s"}},
		{"draft-3", "RateLimit-Limit: 10, 10;w=1, 1000;w=3600\nRateLimit-Remaining: 9\nRateLimit-Reset: 1\n",
			[]string{"draft-6 10/1 left 9 reset 1s"}},
		{"draft-6", "RateLimit-Limit: 100\nRateLimit-Policy: 100;w=60\nRateLimit-Remaining: 9\nRateLimit-Reset: 20\n",
			[]string{"draft-6 100/60 left 9 reset 20s"}},
		{"seconds", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 30\n",
			[]string{"x-ratelimit 10/-1e-09 left 9 reset 30s"}},
		{"unix time", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 1700000030\n",
			[]string{"x-ratelimit 10/-1e-09 left 9 reset 30s"}},
		{"GitHub", "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 59\nX-RateLimit-Used: 1\nX-RateLimit-Reset: " +
			"1700003600\n",
			[]string{"x-ratelimit 60/-1e-09 left 59 reset 1h0m0s"}},
		{"APISIX", "X-RateLimit-Limit: 2\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 58.25\n",
			[]string{"x-ratelimit 2/-1e-09 left 0 reset 58.25s"}},
		{"Envoy", "x-ratelimit-limit: 10, 10;w=1;name=\"x\"\nx-ratelimit-remaining: 4\nx-ratelimit-reset: 1\n",
			[]string{"x-ratelimit 10/1 left 4 reset 1s"}},
		{"from a cache", "Age: 5\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\n", nil},
		{"none", "Content-Type: text/plain\n", nil},
	} {
		r := readAnswer(header(test.lines), 0)
		if got := r.lines(); !reflect.DeepEqual(got, test.want) || len(r.Problems) > 0 {
			t.Errorf("%s: read as %q, want %q; problems %q", test.what, got, test.want, r.Problems)
		}
	}
}

func TestMalformedFieldsAreNamed(t *testing.T) {
	for _, test := range [][2]string{
		{"RateLimit-Policy: \"a\";w=60\n", policyForm},
		{"RateLimit-Policy: \"a\";q=1;w=0\n", policyForm},
		{"RateLimit-Policy: \"a\";q=-1\n", policyForm},
		{"RateLimit-Policy: \"a\";q=1.5\n", policyForm},
		{"RateLimit-Policy: a;q=1\n", policyForm},
		{"RateLimit-Policy: -1;w=2\n", policyForm},
		{"RateLimit-Policy: \"a\n", policyForm},
		{"RateLimit-Policy: \"a\";q=1\nRateLimit: \"b\";r=1\n",
			`RateLimit "b": there is no such policy in RateLimit-Policy`},
		{"RateLimit: \"a\";r=1;t=1700000000\n", stateForm},
		{"RateLimit: (\"a\");r=1\n", stateForm},
		{"RateLimit: \"a\";t=1\n", stateForm},
		{"RateLimit: a;r=1\n", stateForm},
		{"RateLimit: 5;r=1\n", stateForm},
		{"RateLimit: \n", stateForm},
		{"RateLimit: limit=1, remaining=0\n", dictionaryForm},
		{"RateLimit: limit=1, remaining=0, reset=1.5\n", dictionaryForm},
		{"RateLimit: limit=1, remaining=0, reset=1700000000\n", dictionaryForm},
		{"RateLimit: limit=1, remaining=-1, reset=1\n", dictionaryForm},
		{"RateLimit-Reset: 1700000000\n", "a number of seconds from now"},
		{"RateLimit-Reset: 1.5\n", "a number of seconds from now"},
		{"X-RateLimit-Limit: ten\n", "a whole number"},
		{"X-RateLimit-Remaining: -3\n", "a whole number"},
		{"X-RateLimit-Reset: soon\n", "a number of seconds from now"},
		{"X-RateLimit-Reset: 1700000000000\n", "a number of seconds from now"},
		{"X-RateLimit-Limit: 1\nX-RateLimit-Limit: 2\n",
			`X-RateLimit-Limit is there 2 times, with different values`},
		{strings.Repeat("X-RateLimit-Limit: "+strings.Repeat("1", longestValue)+"\n", 2),
			`X-RateLimit-Limit is 8194 bytes long`},
		{"X-RateLimit-Limit: 99999999999999999\n", "a whole number"},
		{"X-RateLimit-Limit: \n", "a whole number"},
		{"X-RateLimit-Limit: 20 per 2s\n", "a whole number"},
		{"X-RateLimit-Limit: 20, x;w=2\n", "COUNT, COUNT;w=SECONDS"},
		{"X-RateLimit-Remaining: 19.0\n", "a whole number"},
		{"X-RateLimit-Remaining: +19\n", "a whole number"},
		{"X-RateLimit-Remaining: 0x13\n", "a whole number"},
		{"X-RateLimit-Reset: 2026-11-29T03:42:10Z\n", "a number of seconds from now"},
		{"X-RateLimit-Reset: Inf\n", "a number of seconds from now"},
		{"X-RateLimit-Reset: 1e9\n", "a number of seconds from now"},
		{"X-RateLimit-Reset: -1\n", "a number of seconds from now"},
		{"RateLimit-Remaining: 3\nX-RateLimit-Remaining: 5\n",
			`RateLimit-Remaining and X-RateLimit-Remaining contradict each other: 3 and 5 in one answer`},
	} {
		lines, want := test[0], test[1]
		if name, value, _ := strings.Cut(strings.TrimSuffix(lines, "\n"), ": "); !strings.Contains(want, "RateLimit") {
			want = name + ": " + strconv.QuoteToASCII(value) + " is not " + want
		}
		r := ReadAnswer(&endpoint.Answer{Header: header(lines), Answered: readAt}, 0)
		if len(r.Problems) != 1 || r.Problems[0] != want {
			t.Errorf("%.80q: %q, want %q", lines, r.Problems, want)
		}
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	date := readAt.Add(90 * time.Second).UTC().Format(http.TimeFormat)
	for _, test := range []struct {
		text    string
		want    time.Duration
		problem string
	}{
		{"30", 30 * time.Second, ""},
		{"0", 0, ""},
		{date, 90 * time.Second, ""},
		{"Tue, 14 Nov 2023 22:13:10 GMT", -10 * time.Second, ""},
		{"1.5", NotTold, `Retry-After: "1.5" is neither a whole number of seconds nor a date`},
		{"2s", NotTold, `Retry-After: "2s" is neither a whole number of seconds nor a date`},
		{"2026-11-29T03:42:10Z", NotTold,
			`Retry-After: "2026-11-29T03:42:10Z" is neither a whole number of seconds nor a date`},
		{"-1", NotTold, `Retry-After: "-1" is neither a whole number of seconds nor a date`},
		{"", NotTold, `Retry-After: "" is neither a whole number of seconds nor a date`},
		{"99999999999999999999", NotTold,
			`Retry-After: "99999999999999999999" is neither a whole number of seconds nor a date`},
		{"\x1b[2J", NotTold, `Retry-After: "\x1b[2J" is neither a whole number of seconds nor a date`},
	} {
		r := readAnswer(http.Header{"Retry-After": {test.text}}, 0)
		if r.RetryAfter != test.want || r.RetryProblem != test.problem {
			t.Errorf("Retry-After: %q is read as %s, %q; want %s, %q", test.text, r.RetryAfter, r.RetryProblem,
				test.want, test.problem)
		}
	}
}

func TestTheOtherClockIsTold(t *testing.T) {
	at := func(d time.Duration) http.Header {
		return http.Header{"Date": {readAt.Add(d).UTC().Format(http.TimeFormat)}}
	}
	for ahead, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: 0, -time.Second: 0, time.Hour: time.Hour, -time.Hour: -time.Hour,
	} {
		if got := SkewOf(at(ahead), readAt, readAt.Add(time.Millisecond)); got != want {
			t.Errorf("a clock %s ahead is taken as %s ahead", ahead, got)
		}
	}
	h := header("X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: " +
		strconv.FormatInt(readAt.Add(time.Hour).Unix()+30, 10) + "\n")
	r := readAnswer(h, time.Hour)
	if got := r.Limits[0].Reset; got != 30*time.Second {
		t.Errorf("a reset by a clock an hour ahead is in %s", got)
	}
}

func TestStatusesOfRateLimitServicesAreRead(t *testing.T) {
	var r Reading
	r.readStatuses([]rls.Status{
		{HasLimit: true, Name: "a", RequestsPerUnit: 10, Unit: 2, Remaining: 3, HasReset: true, ResetSeconds: 5},
	})
	if !slices.Equal(r.lines(), []string{"rls a10/60 left 3 reset 5s"}) {
		t.Errorf("read as %+v", r.Limits)
	}
	var many Reading
	many.readStatuses(slices.Repeat([]rls.Status{{HasLimit: true}}, 1000))
	if len(many.Limits) != mostLimits || len(many.Problems) != 1 {
		t.Errorf("%d limits, problems %q", len(many.Limits), many.Problems)
	}
}

// Whatever a server sends, what is told of it is short, printable and within bounds.
func FuzzHeaders(f *testing.F) {
	for _, value := range []string{
		"10", "10, 10;w=1", `"default";r=50;t=30`, "limit=1, remaining=2, reset=3", "-1", "1e9", "\x1b[31m",
		"1700000000",
		strings.Repeat("9", 300), `"a";q=1;w=60,"b";q=2`, "((", "NaN", "Inf", "0x10", "1_000", "9223372036854775807",
	} {
		f.Add(value, value, value)
	}
	f.Fuzz(func(t *testing.T, first, second, third string) {
		for _, names := range [][3]string{
			{"RateLimit-Policy", "RateLimit", "Retry-After"},
			{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"},
			{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"},
			{"RateLimit-Limit", "RateLimit-Policy", "Date"},
		} {
			h := http.Header{}
			h.Set(names[0], first)
			h.Set(names[1], second)
			h.Set(names[2], third)
			r := readAnswer(h, SkewOf(h, readAt, readAt))
			shown := append([]string{r.RetryText, r.RetryProblem}, r.Problems...)
			for _, l := range r.Limits {
				if l.Remaining < NotTold || l.Count < NotTold || l.Window < NotTold || l.Reset.Abs() > longestWait {
					t.Fatalf("%v is read as %+v", h, l)
				}
				shown = append(shown, l.CountField, l.LeftField, l.ResetField)
			}
			if len(r.Problems) > 10*mostLimits || r.RetryAfter > longestWait {
				t.Fatalf("%d problems, Retry-After %s", len(r.Problems), r.RetryAfter)
			}
			for _, text := range shown {
				for _, c := range text {
					if !texts.IsVisible(c) {
						t.Fatalf("%q is told of %v", text, h)
					}
				}
				if !utf8.ValidString(text) || len(text) > 1000 {
					t.Fatalf("%q is told of %v", text, h)
				}
			}
		}
	})
}

// readAnswer reads the header of an answer at readAt.
func readAnswer(h http.Header, skew time.Duration) Reading {
	return ReadAnswer(&endpoint.Answer{Header: h, Answered: readAt}, skew)
}

// A server that makes another mistake in each answer fills no memory.
func TestMistakesAreBounded(t *testing.T) {
	var found Findings
	for n := range 1000 {
		found.AddProblem(fmt.Sprintf("RateLimit-Policy \"%d\" has no q", n))
	}
	if texts := found.Texts; len(texts) != 33 || texts[32] != "and other mistakes" {
		t.Errorf("%d: %q", len(texts), texts[len(texts)-1])
	}
}
