package cmd

import (
	"context"
	"testing"
)

func TestInterruptWhileReadingALog(t *testing.T) {
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(context.Background())
	w.In = readerFunc(func([]byte) (int, error) {
		interrupt()
		select {} // nothing more ever comes
	})
	if code := Run(ctx, []string{"simulate", "-", "--limit", "30/1m"}, w.Env); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, &w.err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
