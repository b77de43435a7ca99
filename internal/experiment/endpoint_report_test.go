package experiment

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Another status is proposed where its answers look like denials, and nothing is said where they cannot be the cause.
func TestAnswersThatLookLikeDenials(t *testing.T) {
	for _, test := range []struct {
		statuses map[int]int64
		over     int64 // units
		want     string
	}{
		{map[int]int64{200: 40, 302: 140}, 114, "140 answers of 302 Found … --denied-status 302"},
		{map[int]int64{200: 40, 403: 140, 404: 3}, 114, "140 answers of 403 Forbidden … --denied-status 403"},
		{map[int]int64{200: 40, 403: 140, 429: 3}, 114, "140 answers of 403 … --denied-status 429,403"},
		{map[int]int64{404: 140}, 0, "140 answers of 404 Not Found count as allowed; … --denied-status 404"},
		{map[int]int64{200: 1, 503: 139}, 0, "139 answers of 503 … --denied-status 503"},
		{map[int]int64{200: 180, 404: 3}, 114, ""},         // they are too few
		{map[int]int64{200: 40, 404: 140}, 0, ""},          // nothing is too much
		{map[int]int64{200: 40, 429: 30, 503: 140}, 1, ""}, // who is denied is known
		{nil, 0, ""}, {map[int]int64{0: 40, 14: 140}, 114, ""}, // of gRPC
	} {
		target, run, seen := new(endpointTarget), new(report.Run), []int{}
		for status := range target.statuses {
			n := test.statuses[status]
			if target.statuses[status].Store(n); n > 0 {
				seen = append(seen, status)
			}
		}
		if run.Denied = test.statuses[429]; run.Denied > 0 {
			target.denies[429].Store(true)
		}
		run.Audit.Totals = audit.Totals{OverAdmitted: test.over}
		got := target.oddAnswers(run, seen)
		begin, end, _ := strings.Cut(test.want, "…")
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
			t.Errorf("%v, %d too many: %q", test.statuses, test.over, got)
		}
	}
}
