package dashboard

import (
	"context"
	"iter"
	"sync"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// finder finds the keys of a selection, and remembers whether it did so without a scan. It is safe for concurrent use.
type finder struct {
	selection operation.Selection
	mu        sync.Mutex
	unscanned operation.Unscanned
}

// find yields what a query finds, which is that of the selection but for what it asks for.
func (f *finder) find(ctx context.Context, backend admin.Keyspace, q admin.Query) iter.Seq2[admin.Entry, error] {
	return func(yield func(admin.Entry, error) bool) {
		var unscanned operation.Unscanned
		for entry, err := range f.selection.Entries(ctx, backend, q, &unscanned) {
			if !yield(entry, err) {
				break
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unscanned = unscanned
	}
}

// note says under which names keys were looked for, if the store was not scanned.
func (f *finder) note(g *cli.Globals) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unscanned.Is {
		g.Note("%s", cli.UnscannedText(g, &f.unscanned))
	}
}
