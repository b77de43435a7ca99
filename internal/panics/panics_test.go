package panics

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func boom(value any) error { panic(value) }

func TestAPanicIsAnErrorOfOneLine(t *testing.T) {
	err := Call(func() error { return boom("no\nway") })
	var panicked *Error
	if !errors.As(err, &panicked) || err.Error() != "internal error: no" {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(string(panicked.Stack), "boom") {
		t.Errorf("the stack does not say where:\n%s", panicked.Stack)
	}
	if again := Call(func() error { return boom(panicked) }); again != err {
		t.Errorf("on its way up it became %v", again)
	}
	if err := Call(func() error { return boom(io.EOF) }); !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
	if err := Call(func() error { return io.ErrShortWrite }); err != io.ErrShortWrite {
		t.Errorf("error %v", err)
	}
}

func TestAGoroutinesPanicReachesWhoWaits(t *testing.T) {
	failed := make(chan error)
	Go(func() error { return boom("x") }, func(err error) { failed <- err })
	if err := <-failed; err == nil {
		t.Error("no error")
	}
}

func TestAPanicOfOneReachesTheCallerThatWaits(t *testing.T) {
	var group Group
	done := make([]bool, 3)
	for i := range done {
		group.Go(func() {
			done[i] = true
			if i == 1 {
				panic("y")
			}
		})
	}
	if err := group.Wait(); err == nil || err.Error() != "internal error: y" {
		t.Errorf("error %v", err)
	}
	if !done[0] || !done[1] || !done[2] {
		t.Errorf("not all were called: %v", done)
	}
}
