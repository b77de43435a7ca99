// Package sleep waits, at most as long as a context lasts.
package sleep

import (
	"context"
	"time"
)

// For waits for d. If ctx ends first, it returns ctx's error at once.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
