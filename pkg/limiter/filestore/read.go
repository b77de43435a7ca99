package filestore

import (
	"context"
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// read calls do in a transaction that only reads, so that do sees one instant. It waits for no writer.
func (s *Store) read(ctx context.Context, do func(t *transaction) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := s.takeTurn(ctx, &s.reader, nil); err != nil {
		return err
	}
	defer s.reader.giveTurn()
	err := s.open(ctx, &s.reader, false)
	if errors.Is(err, errMissing) {
		return do(s.transaction(ctx, nil))
	}
	if err == nil {
		err = s.retryBusy(ctx, func() error {
			if err := s.reader.exec("BEGIN"); err != nil {
				return err
			}
			defer func() { _ = s.reader.exec("ROLLBACK") }()
			return do(s.transaction(ctx, &s.reader))
		})
	}
	return s.translate(ctx, err, false)
}

// peek gives the answer that a take would get.
func (s *Store) peek(ctx context.Context, reqs []store.Request, decisions []store.Decision) error {
	return s.read(ctx, func(t *transaction) error { return t.decide(store.Peek, reqs, decisions) })
}
