package experiment

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/report"
)

// What is wrong with the fields of an answer is found, and such an answer is not held against the truth as a whole. One
// about another limit is warned of.
func TestTheFieldsOfAnswersAreJudged(t *testing.T) {
	limit := parseLimit(t, "10/1m")
	for _, test := range []struct {
		outcome       endpoint.Outcome
		status        int
		fields        string // name and value in turns
		checked       bool
		wrong, warned string
	}{
		{endpoint.Allowed, 200, "X-Ratelimit-Limit 10 X-Ratelimit-Remaining 4", true, "", ""},
		{endpoint.Allowed, 200, "X-Ratelimit-Remaining 4", false, "", ""}, // of nobody knows which limit
		{endpoint.Allowed, 200, "X-Ratelimit-Limit 12 X-Ratelimit-Remaining 4", false, "", "X-RateLimit-Limit 12"},
		{endpoint.Allowed, 200, "X-Ratelimit-Limit 10 X-Ratelimit-Remaining -1", false,
			`X-RateLimit-Remaining: "-1" is not a whole number`, ""},
		// of a cache
		{endpoint.Allowed, 200, "X-Ratelimit-Limit 10 X-Ratelimit-Remaining -1 Age 3", false, "", ""},
		// it matters on denials
		{endpoint.Allowed, 200, "X-Ratelimit-Limit 10 X-Ratelimit-Remaining 4 Retry-After soon", true, "", "waits"},
		{endpoint.Denied, 429, "X-Ratelimit-Limit 10 X-Ratelimit-Remaining 0 Retry-After 5", true, "", ""},
		{endpoint.Denied, 429, "X-Ratelimit-Remaining 0 Retry-After 5", false, "", ""},
		{endpoint.Denied, 429, "X-Ratelimit-Limit 12 Retry-After 5", false, "", "X-RateLimit-Limit 12"},
		{endpoint.Denied, 429, "Retry-After 5", true, "", ""},
		{endpoint.Denied, 429, "X-Ratelimit-Remaining 0 Retry-After 1.997", false,
			`Retry-After: "1.997" is neither a whole number of seconds nor a date`, ""},
		{endpoint.Denied, 429, "X-Ratelimit-Limit 10 X-Ratelimit-Remaining 0", false,
			"Retry-After is missing on a denial", ""},
		{endpoint.Denied, 429, "", false, "Retry-After is missing on a denial", ""},
		{endpoint.Denied, 403, "X-Ratelimit-Limit 10 X-Ratelimit-Remaining 0", true, "", ""}, // only a 429 asks for it
		{endpoint.Denied, 0, "", false, "", ""},                                              // nor does gRPC
	} {
		answer := &endpoint.Answer{Outcome: test.outcome, Status: test.status, Header: http.Header{},
			Answered: time.Now()}
		words := strings.Fields(test.fields)
		for i := 0; i < len(words); i += 2 {
			answer.Header.Set(words[i], words[i+1])
		}
		target := &endpointTarget{limit: &limit}
		reported := target.reported(answer)
		checked := reported != nil && !reported.Partly
		wrong, warned := strings.Join(target.wrong.Texts, "; "), ""
		if other := target.other.Load(); other != nil {
			warned = other.Text()
		} else if target.waits.Load() > 0 {
			warned = "waits"
		}
		run := new(report.Run)
		target.describeAnswers(run)
		if told := run.Audit.Lies != nil; told != (wrong+strings.TrimPrefix(warned, "waits") != "") {
			t.Errorf("%s: something was told: %t", test.fields, told)
		}
		if checked != test.checked || wrong != test.wrong || (warned == "") != (test.warned == "") ||
			!strings.HasPrefix(warned, test.warned) {
			t.Errorf("%s: checked %t, wrong %q, warned %q", test.fields, checked, wrong, warned)
		}
	}
}
