// Package goroutines waits for several goroutines together. A panic of one comes out as an
// error there.
package goroutines

import (
	"golang.org/x/sync/errgroup"

	"github.com/limitctl/limitctl/internal/panics"
)

// A Group is goroutines that are waited for together: an [errgroup.Group] in which a panic
// is an error. The zero Group is ready for use.
type Group struct{ group errgroup.Group }

// Go calls f in a goroutine.
func (g *Group) Go(f func()) {
	g.group.Go(func() error {
		return panics.Call(func() error { f(); return nil })
	})
}

// Wait waits for all goroutines, and returns the panic of the first that had one.
func (g *Group) Wait() error { return g.group.Wait() }
