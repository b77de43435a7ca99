package sys_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/sys"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			asked, contextLasts, waited time.Duration
			want                        error
		}{
			{time.Minute, time.Hour, time.Minute, nil},
			{time.Hour, time.Minute, time.Minute, context.DeadlineExceeded},
			{0, time.Minute, 0, nil},
			{-1, time.Minute, 0, nil},
			{-1, -1, 0, context.DeadlineExceeded},
			{1, -1, 0, context.DeadlineExceeded},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), test.contextLasts)
			begin := time.Now()
			err := sys.Sleep(ctx, test.asked)
			if waited := time.Since(begin); waited != test.waited || !errors.Is(err, test.want) {
				t.Errorf("For(%s) in a context of %s waited %s, %v", test.asked, test.contextLasts, waited, err)
			}
			cancel()
		}
	})
}

func TestIsTimeout(t *testing.T) {
	slow := &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	for err, want := range map[error]bool{
		slow: true, fmt.Errorf("of a Sentinel: %w", slow): true, context.DeadlineExceeded: true,
		net.ErrClosed: false, context.Canceled: false, nil: false,
	} {
		if got := sys.IsTimeout(err); got != want {
			t.Errorf("IsTimeout(%v) = %t", err, got)
		}
	}
}
