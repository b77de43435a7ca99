package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// ErrNoLimit is the error of a probe that was never denied within its budget.
var ErrNoLimit = errors.New("no request was denied")

// Discover finds out what limit the endpoint has, by at most the budget of requests. With a
// limit given it only asks until the first denial. The discovery is never nil.
func Discover(ctx context.Context, config *Config) (*Discovery, error) {
	d := &Discovery{Limit: config.Limit}
	subject := strings.ToLower(rand.Text()[:8])
	if config.Observer != nil {
		config.Observer.Plan([]string{fmt.Sprintf("at most %d requests of one subject until the first denial", config.Budget)})
	}
	for range config.Budget {
		event := config.send(ctx, subject, 1)
		d.Events = append(d.Events, event)
		if event.Err != nil {
			return d, event.Err
		}
		if event.Outcome == endpoint.Denied {
			return d, nil
		}
	}
	return d, ErrNoLimit
}

// send sends one request.
func (c *Config) send(ctx context.Context, subject string, cost int64) Event {
	event := Event{Subject: subject, Cost: cost}
	event.Err = c.Client.Send(ctx, subject, cost, &event.Answer)
	return event
}
