package redisstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A publisher who may not remove the versions that are no longer kept changes nothing.
func TestPublishingWithoutTheRightToRemove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := as(server, "~*", "+@all", "-unlink")
	backend := newStore(t, redis.NewClient(&options))
	defer backend.Close()
	first := admin.ConfigChange{Head: "one", Version: 1, Record: "first", Line: "1"}
	if done, err := backend.PublishConfig(ctx, first); err != nil || !done {
		t.Fatalf("with nothing to remove: %t, %v", done, err)
	}
	second := admin.ConfigChange{Was: "one", Head: "two", Version: 2, Record: "second", Line: "2", Drop: []int64{1}}
	if done, err := backend.PublishConfig(ctx, second); done || !errors.Is(err, store.ErrRefused) {
		t.Errorf("with one to remove: %t, %v", done, err)
	}
	head, err := backend.ConfigHead(ctx)
	old, err2 := backend.ConfigVersion(ctx, 1)
	next, err3 := backend.ConfigVersion(ctx, 2)
	lines, damaged, err4 := backend.ConfigHistory(ctx, 10)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(head, old, next, len(lines), damaged); got != fmt.Sprint("one", "first", "", 1, 0) {
		t.Errorf("afterwards there are %s", got)
	}
}
