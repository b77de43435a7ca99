package cli

import (
	"context"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ReadJournal reads the part of the audit log that is in the store: the runs of all machines. It returns what it could
// read even with an error, and warns of texts that are not of the audit log.
func ReadJournal(ctx context.Context, g *Globals, backend store.Store, q auditlog.Query) (*auditlog.History, error) {
	journal, has := admin.JournalOf(backend)
	if !has {
		return &auditlog.History{}, nil
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	entries, damaged, err := journal.ReadJournal(ctx, admin.JournalKept)
	texts := make([]string, len(entries))
	for i := range entries {
		texts[i] = entries[i].Text
	}
	history := auditlog.ReadTexts(texts, q)
	if bad := history.Bad + damaged; bad > 0 {
		g.Note("warning: %s in the journal of the store are not of the audit and are left out", CountOf(int64(bad), "text", "texts"))
	}
	return history, err
}
