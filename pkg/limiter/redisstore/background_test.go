package redisstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestWorkInTheBackgroundIsWaitedFor(t *testing.T) {
	t.Parallel()
	var work background
	work.Wait(forever) // for nothing
	for range 3 {
		goOn, told := make(chan struct{}), atomic.Bool{}
		work.Go(func() error { <-goOn; panic(errUndoing) }, func(err error) { told.Store(errors.Is(err, errUndoing)) })
		close(goOn)
		work.Wait(forever)
		if !told.Load() {
			t.Error("what was waited for had not told its panic")
		}
	}
}

var errUndoing = errors.New("a bug")

// A store can be closed while others still use it.
func TestWorkInTheBackgroundCanBeginWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	var work background
	var callers sync.WaitGroup
	var ended atomic.Int64
	const each = 5000
	for range 4 {
		callers.Go(func() {
			for range each {
				work.Go(func() error { return nil }, func(error) { ended.Add(1) })
				work.Wait(forever)
			}
		})
	}
	callers.Wait()
	work.Wait(forever)
	if ended.Load() != 4*each {
		t.Errorf("%d ended", ended.Load())
	}
}

func TestWorkThatHangsIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	var work background
	goOn := make(chan struct{})
	work.Go(func() error { <-goOn; return nil }, func(error) {})
	work.Wait(time.Millisecond) // returns
	close(goOn)
	work.Wait(forever)
}
