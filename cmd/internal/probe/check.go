package probe

import (
	"context"
	"fmt"
	"net/http"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// Verify holds the endpoint to the limit of a discovery. What was seen until an error is in
// the result, which is never nil.
func Verify(_ context.Context, config *Config, discovery *Discovery) (*Result, error) {
	r := &Result{Discovery: *discovery}
	want := config.DeniedStatus
	if want == 0 {
		want = http.StatusTooManyRequests
	}
	check := Check{Name: "denial-status", Verdict: Unknown, Expected: fmt.Sprint(want), Seen: "no denial"}
	for i := range r.Events {
		e := &r.Events[i]
		if e.Outcome != endpoint.Denied {
			continue
		}
		check.Seen, check.Verdict = fmt.Sprint(e.Status), Pass
		if e.Status != want {
			check.Verdict = Fail
		}
	}
	r.Checks = append(r.Checks, check)
	return r, nil
}
