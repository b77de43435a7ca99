package envoy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/ratelimitfile"
	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// peerSettings are the settings that limitctl makes of the files of envoyproxy/ratelimit.
func peerSettings(t *testing.T) *engine.Settings {
	t.Helper()
	var files []ratelimitfile.File
	for _, name := range []string{"limits.yaml", "other.yaml"} {
		path := filepath.Join("testdata", "peer", name)
		data, err := os.ReadFile(path)
		tier.Must(t, err)
		files = append(files, ratelimitfile.File{Path: path, Data: data})
	}
	rules, mistakes := ratelimitfile.Read(files)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return &engine.Settings{File: configfile.File{Policies: rules.Policies, Envoy: rules.Envoy}}
}

// newListener returns a listener with those settings and an empty store, whose clock stands still.
func newListener(t *testing.T, settings *engine.Settings) *listener {
	t.Helper()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	backend := memorystore.New(memorystore.WithClock(func() time.Time { return now }))
	e := engine.New(backend, settings, engine.Options{Timeout: time.Minute})
	t.Cleanup(func() { e.Close(); backend.Close() })
	return &listener{engine: e, options: Options{Describe: func(err error) string { return err.Error() }}}
}

// readAsk reads a line of the corpus: ask DOMAIN HITS DESCRIPTOR…, a descriptor being KEY=VALUE,KEY=VALUE.
func readAsk(t *testing.T, line string) *rls.Request {
	t.Helper()
	words := strings.Fields(line)
	hits, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	r := askEdge(uint32(hits), words[3:]...)
	r.Domain = words[1]
	return r
}

// summary writes an answer as the corpus has it.
func summary(t *testing.T, message []byte) string {
	t.Helper()
	answer, err := rls.ReadResponse(message)
	tier.Must(t, err)
	codes := map[rls.Code]string{rls.OK: "OK", rls.OverLimit: "OVER_LIMIT"}
	units := []string{"UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"}
	text := codes[answer.Overall]
	for _, s := range answer.Statuses {
		limit, left := "-", strconv.FormatUint(uint64(s.Remaining), 10)
		if s.HasLimit {
			limit = fmt.Sprintf("%d/%s", s.RequestsPerUnit, units[s.Unit])
		}
		if s.Remaining == math.MaxUint32 {
			left = "max"
		}
		text += fmt.Sprintf(" %s:%s:%s", codes[s.Code], limit, left)
	}
	return text
}

// limitctl gives the answers that envoyproxy/ratelimit gave to the same requests with the same files. Where it does
// not, the reason is a row of the docs.
func TestTheAnswersOfThePeer(t *testing.T) {
	const path = "testdata/peer/corpus.txt"
	text, err := os.ReadFile(path)
	tier.Must(t, err)
	page, err := os.ReadFile("../../../docs/serve-envoy.md")
	tier.Must(t, err)
	settings := peerSettings(t)
	var l *listener
	var got string
	asked := 0
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range lines {
		keyword, rest, _ := strings.Cut(line, " ")
		switch keyword {
		case "case":
			l = newListener(t, settings)
		case "ask":
			asked++
			response, err := l.answer(t.Context(), rls.AppendRequest(nil, readAsk(t, line)))
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			got = summary(t, response)
		case "answer":
			want, reason := rest, ""
			if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "limitctl ") {
				want, reason, _ = strings.Cut(strings.TrimPrefix(lines[i+1], "limitctl "), " because ")
				if want == rest || !strings.Contains(string(page), "| "+reason+" |") {
					t.Errorf("%s: the reason %q is no row of the docs, or the answers are equal", lines[i-1], reason)
				}
			}
			if got != want {
				t.Errorf("%s: the answer is %q, not %q", lines[i-1], got, want)
			}
		}
	}
	if asked < 300 {
		t.Errorf("there are only %d requests", asked)
	}
}

// The fields about the nearest limit have the configured names, in one order, and a shadow lets every request pass.
func TestOptionsForAllDomains(t *testing.T) {
	settings := peerSettings(t)
	settings.EnvoyOptions = configfile.EnvoyOptions{
		Shadow: true, Headers: configfile.EnvoyHeaders{Limit: "A", Remaining: "B", Reset: "C"}}
	l := newListener(t, settings)
	const day = 24 * 60 * 60
	left := uint64(day - (5*60*60 + 6*60 + 7)) // the rest of the day of the clock
	headers := []rls.Header{{Name: "A", Value: "1"}, {Name: "B", Value: "0"}, {Name: "C", Value: fmt.Sprint(left)}}
	for _, second := range []rls.Code{rls.OK, rls.OverLimit} { // the status of the second descriptor
		message, err := l.answer(t.Context(),
			rls.AppendRequest(nil, readAsk(t, "ask rl 1 foo=a foo=a,bar=bkthomps none=x")))
		tier.Must(t, err)
		answer, err := rls.ReadResponse(message)
		tier.Must(t, err)
		if answer.Overall != rls.OK || answer.Statuses[1].Code != second ||
			!slices.Equal(answer.Headers, headers) ||
			answer.Statuses[1].Name != "bkthomps" || answer.Statuses[0].Name != "rl-foo/day" {
			t.Errorf("the answer is %+v, and its fields are to be %v", answer, headers)
		}
	}
}
