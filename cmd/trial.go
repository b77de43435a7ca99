package cmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// A trial is a load test or a simulation in a store: it has a prefix of its own there,
// and leaves nothing.

// refuseTrial refuses what only tries a store out, where the context says that it is
// not for that; what is such as "simulation".
func (g *globalOptions) refuseTrial(what string) error {
	s, err := g.settings()
	if err != nil {
		return err
	}
	switch access := s.access(); {
	case access.ReadOnly:
		return &connect.ReadOnlyError{Context: access.Context, What: what}
	case access.Protected:
		return usagef("context %q is protected; a %s is for another store", access.Context, what)
	}
	return nil
}

// trialPrefix returns the prefix of one trial's keys, beside those of the limits in use.
func trialPrefix(prefix string) (string, error) {
	if err := limiter.ValidatePrefix(prefix); err != nil { // and not of what it becomes
		return "", err
	}
	return prefix + ":loadtest:" + strings.ToLower(rand.Text()[:10]), nil
}

const (
	// removalTime bounds how long removing the keys of a trial takes.
	removalTime = time.Minute
	// removalBatch is how many keys are removed at a time.
	removalBatch = 10_000
)

// removeTrial deletes the keys of a trial, also after it was interrupted; what is such
// as "simulation".
func removeTrial(ctx context.Context, store connect.Store, what, prefix string, keys []limiter.Key) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTime)
	defer cancel()
	for some := range slices.Chunk(keys, removalBatch) {
		if _, _, err := store.Delete(ctx, limiter.Records(some...)...); err != nil {
			return outcome.Partly(fmt.Errorf("the %s's keys, which begin with %s:, could not all be removed: %w", what, prefix, err))
		}
	}
	return nil
}
