package serve

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
)

// backgroundTime is how long the end waits for the work in the background. A file system may hang, and so may a
// store.
const backgroundTime = time.Second

// background starts the work that runs until ctx ends. The returned function ends it earlier, and waits for it.
func (o *Options) background(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var group panics.Group
	begin := func(what func(ctx context.Context)) {
		group.Go(func() {
			if err := panics.Call(func() error { what(ctx); return nil }); err != nil {
				o.Log.Error("something in the background has ended", "error", err)
			}
		})
	}
	var asks []chan struct{}
	for _, refresh := range o.Refreshes {
		asked := make(chan struct{}, 1)
		asks = append(asks, asked)
		begin(func(ctx context.Context) { repeat(ctx, refresh, asked) })
	}
	begin(func(ctx context.Context) { spread(ctx, o.Hangups, asks) })
	for _, run := range o.Background {
		begin(run)
	}
	return func() {
		cancel()
		done := make(chan struct{})
		panics.Go(group.Wait, func(error) { close(done) })
		waitFor(context.Background(), done, backgroundTime)
	}
}

// repeat calls refresh regularly, and whenever asked receives.
func repeat(ctx context.Context, refresh func(ctx context.Context, asked bool), asked <-chan struct{}) {
	every := time.NewTicker(refreshEvery)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-asked:
			refresh(ctx, true)
		case <-every.C:
			refresh(ctx, false)
		}
	}
}

// spread passes each hangup to all receivers. A receiver that is slow gets several as one.
func spread(ctx context.Context, hangups <-chan struct{}, asks []chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			for _, asked := range asks {
				select {
				case asked <- struct{}{}:
				default:
				}
			}
		}
	}
}
