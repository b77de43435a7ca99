package trial

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// endpointTarget is a limit that somebody else decides.
type endpointTarget struct {
	client endpoint.Client
	// fresh begins the subjects of this run, so that nobody has asked as them before.
	fresh string
}

// NewEndpointTarget returns an endpoint as a target, whose subjects are new ones.
func NewEndpointTarget(client endpoint.Client) Target {
	return &endpointTarget{client, strings.ToLower(rand.Text()[:8]) + "-"}
}

// Decide implements [limiter.Store]. One request asks for all limits.
func (t *endpointTarget) Decide(ctx context.Context, _ limiter.Op, reqs []limiter.Request, decisions []limiter.Decision) error {
	var answer endpoint.Answer
	if err := t.client.Send(ctx, t.fresh+reqs[0].Key.Subject, reqs[0].Cost, &answer); err != nil {
		return err
	}
	if answer.Outcome == endpoint.Failed && answer.Reason != "" {
		return fmt.Errorf("the endpoint %s", answer.Reason)
	} else if answer.Outcome == endpoint.Failed {
		return fmt.Errorf("the endpoint answered with status %d", answer.Status)
	}
	for i := range decisions {
		decisions[i] = limiter.Decision{Allowed: answer.Outcome == endpoint.Allowed}
	}
	return nil
}

// Close implements [limiter.Store].
func (t *endpointTarget) Close() error { return t.client.Close() }

// Describe implements [Target].
func (t *endpointTarget) Describe() Description { return Description{Name: t.client.Describe()} }

// Prepare implements [Target].
func (t *endpointTarget) Prepare(ctx context.Context, _ []limiter.Request, timeout time.Duration) (Clock, error) {
	ctx, cancel := limiter.BudgetContext(ctx, timeout)
	defer cancel()
	return Clock{}, t.client.Connect(ctx)
}

// Measure implements [Target].
func (t *endpointTarget) Measure(context.Context) Measurement { return endpointMeasurement{} }

// CleanUp implements [Target]. What an endpoint has stored is its own business.
func (t *endpointTarget) CleanUp(context.Context, []limiter.Key) error { return nil }

// endpointMeasurement measures nothing yet.
type endpointMeasurement struct{}

// End implements [Measurement].
func (endpointMeasurement) End(context.Context, int64, []limiter.Key) (report.Cost, []string) {
	return report.Cost{}, nil
}
