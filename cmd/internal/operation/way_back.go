package operation

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// kinds are parts of records of other limiters, one of each kind that needs other commands to be
// brought back.
type kinds map[kind]admin.Member

type kind struct {
	valueType string
	expires   bool
}

// maxKinds is more than there are types of values. A server can name any.
const maxKinds = 16

func (k *kinds) add(r *admin.Record) {
	for i := range r.Members {
		part := &r.Members[i]
		is := kind{part.Type, !part.Expires.IsZero()}
		if _, known := (*k)[is]; known || len(*k) == maxKinds {
			continue
		}
		if *k == nil {
			*k = kinds{}
		}
		(*k)[is] = admin.Member{StoreKey: part.StoreKey, Type: part.Type, Expires: part.Expires}
	}
}

// checkWayBack warns if the user may delete keys and may not bring them back. That does not stop
// the reset: somebody at night has to be able to go on, and another user can restore the backup.
func (r *Runner) checkWayBack(ctx context.Context, k kinds) {
	check, has := admin.ImportCheckOf(r.Store)
	if !has || r.Warn == nil || len(k) == 0 {
		return
	}
	record := admin.Record{}
	for _, part := range k {
		record.Members = append(record.Members, part)
	}
	ctx, cancel := store.BudgetContext(ctx, r.Timeout)
	defer cancel()
	if err := check.CheckImport(ctx, record); errors.Is(err, store.ErrRefused) {
		r.Warn(fmt.Errorf("this user cannot undo the reset: %w", err))
	}
}
