package probe

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoLimit is the error of a probe that was never denied within its budget.
var ErrNoLimit = errors.New("no request was denied")

// Discover finds out what limit the endpoint has, by at most the budget of requests. With a
// limit given it only asks until the first denial. The discovery is never nil.
func Discover(ctx context.Context, config *Config) (*Discovery, error) {
	d := &Discovery{Limit: config.Limit}
	s := newSession(ctx, config, nil)
	if config.Observer != nil {
		config.Observer.Plan([]string{fmt.Sprintf("at most %d requests of one subject until the first denial", config.Budget)})
	}
	burst, err := s.exhaust(s.subject(), config.Budget)
	d.Events = s.events
	if err == nil && burst.denied == 0 {
		err = ErrNoLimit
	}
	return d, err
}
