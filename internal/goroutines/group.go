// Package goroutines waits for several goroutines together, and returns a panic in one as an error.
package goroutines

import (
	"golang.org/x/sync/errgroup"

	"github.com/limitctl/limitctl/internal/panics"
)

// A Group is an [errgroup.Group] in which a panic is an error. The zero Group is ready for use.
type Group struct{ group errgroup.Group }

// Go calls f in a goroutine.
func (g *Group) Go(f func()) {
	g.group.Go(func() error {
		return panics.Call(func() error { f(); return nil })
	})
}

// Wait waits for all goroutines, and returns the first panic.
func (g *Group) Wait() error { return g.group.Wait() }
