package operation

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/cmd/internal/memory"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
)

// Selection is which keys an operation is about.
type Selection struct {
	Query limiter.Query
	// Keep, if set, says which of the states that the query finds are selected.
	Keep func(*limiter.Entry) bool
	// Likely, if set, are keys that the query selects and that are likely to be all of them. In
	// a store of more than ScannedWhole keys, if any of these is found, no others are looked for.
	Likely []limiter.Key
	// LikelyStoreKeys are the store keys of Likely, in the same order, where they are of other
	// limiters.
	LikelyStoreKeys []string
	// Foreign selects the values that limitctl did not write, instead of limits.
	Foreign bool
	// Damaged selects damaged records of limitctl's own, too.
	Damaged bool
	// Text is the selection in words, for people.
	Text string
	// Words are the parts of the selection that a subject has in it as they are, for [Similar].
	Words []string
}

// Found is what a scan came to.
type Found struct {
	// Matched is how many keys were selected, foreign values aside.
	Matched int64
	// Looked is how many keys were looked at, of about Total.
	Looked, Total int64
	Foreign       Foreign
	// Unsure are keys that may be of a limiter, and were left out.
	Unsure Unsure
	// Incomplete: there may be more keys than the likely ones, which were found.
	Incomplete bool
}

// ScannedWhole is up to how many keys a store has to be scanned for a subject whose likely
// keys are known.
const ScannedWhole = 100_000

// manyKeys is from how many selected keys on a scan is careful with memory.
const manyKeys = 1_000_000

// Scan calls do with each selected key; a foreign value comes with its error. An error of
// do ends the scan.
func Scan(ctx context.Context, store limiter.Keyspace, s *Selection, observer Observer,
	do func(e *limiter.Entry, foreign error) error) (found Found, err error) {
	if len(s.Likely) > 0 {
		counting, enough := context.WithCancel(ctx)
		defer enough()
		whole := true
		found, err := scan(counting, store, s, observer, do, func(f *Found) {
			if f.Looked == 0 && f.Total > ScannedWhole {
				whole = false
				enough()
			}
		})
		if whole || ctx.Err() != nil {
			return found, err
		}
		likely := *s
		likely.Query.Keys, likely.Query.StoreKeys = s.Likely, s.LikelyStoreKeys
		if found, err = scan(ctx, store, &likely, observer, do, nil); err != nil || found.Matched > 0 || found.Foreign.Count() > 0 {
			found.Incomplete = true
			return found, err
		}
	}
	return scan(ctx, store, s, observer, do, nil)
}

// scan is Scan of the query. look, if set, is called when it is known how far it has come.
func scan(ctx context.Context, store limiter.Keyspace, s *Selection, observer Observer,
	do func(e *limiter.Entry, foreign error) error, look func(*Found)) (found Found, err error) {
	progress := observer.Begin(Scanning)
	defer progress.Close()
	query := s.Query
	query.Progress = func(looked, total int64) {
		found.Looked, found.Total = looked, total
		progress.Set(looked, total, found.Matched)
		if look != nil {
			look(&found)
		}
	}
	for entry, err := range store.Scan(ctx, query) {
		var unsure *foreign.UnsureError
		switch {
		case errors.As(err, &unsure):
			found.Unsure.add(unsure)
			err = nil
		case s.Damaged && isDamaged(err) && (s.Keep == nil || s.Keep(&entry)):
			found.Matched++
			err = do(&entry, err)
		case errors.Is(err, limiter.ErrForeign):
			found.Foreign.add(err)
			if s.Foreign {
				err = do(&entry, err)
			} else {
				err = nil
			}
		case err == nil && !s.Foreign && (s.Keep == nil || s.Keep(&entry)):
			// The scan of a Cluster remembers the keys it has seen. With many keys that is
			// large, and garbage must not double it.
			if found.Matched++; found.Matched == manyKeys {
				defer memory.CollectOften()()
			}
			err = do(&entry, nil)
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// WithProgress says of an error of the scan how far it had come.
func (f *Found) WithProgress(err error) error {
	if err == nil || f.Looked == 0 {
		return err
	}
	return outcome.WithProgress(err, "%d of about %d keys looked at, %d matched", f.Looked, f.Total, f.Matched)
}
