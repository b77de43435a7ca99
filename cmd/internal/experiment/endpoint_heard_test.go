package experiment

import (
	"net/http"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// An answer that is about another limit is warned of, and one that says only what remains is not.
func TestAnswersAboutOtherLimits(t *testing.T) {
	limit := parseLimit(t, "10/1m")
	for _, test := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{"X-Ratelimit-Limit": {"10"}, "X-Ratelimit-Remaining": {"4"}}, ""},
		{http.Header{"X-Ratelimit-Limit": {"12"}, "X-Ratelimit-Remaining": {"4"}}, "X-RateLimit-Limit says 12, "},
		{http.Header{"X-Ratelimit-Remaining": {"4"}}, ""},
	} {
		target := &endpointTarget{limit: &limit}
		target.reported(&endpoint.Answer{Status: http.StatusOK, Header: test.header})
		if text := target.otherLimit(); (text == "") != (test.want == "") || !strings.HasPrefix(text, test.want) {
			t.Errorf("%v: %q", test.header, text)
		}
	}
}
