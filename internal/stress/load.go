//go:build linux

package main

import (
	"runtime"
	"sync/atomic"

	"github.com/limitctl/limitctl/internal/panics"
)

// busyLoops keeps n threads busy until stop is called. They end with the process in any case.
func busyLoops(n int) (stop func()) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + n)
	var over atomic.Bool
	var loops panics.Group
	for range n {
		loops.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		loops.Wait()
		runtime.GOMAXPROCS(before)
	}
}
