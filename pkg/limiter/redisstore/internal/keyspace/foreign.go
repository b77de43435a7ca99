package keyspace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// nameTypes says what the foreign values of a batch are that are no strings: a scan has read only that they are none. If the types
// cannot be had, that is all it says.
func (sc *ownScan) nameTypes(ctx context.Context, server redis.Cmdable, read []found) {
	var unknown []*store.ForeignError
	for i := range read {
		var value *store.ForeignError
		if errors.As(read[i].err, &value) && value.Holds == "" {
			unknown = append(unknown, value)
		}
	}
	for some := range slices.Chunk(unknown, redisserver.KeysPerRead) {
		pipe := server.Pipeline()
		types := make([]*redis.StatusCmd, len(some))
		for i := range some {
			types[i] = pipe.Type(ctx, some[i].StoreKey)
		}
		pipe.Exec(ctx)
		for i := range some {
			kind := "value of another type"
			if is := types[i].Val(); is != "" {
				kind = sc.Servers.Redact(is)
			}
			some[i].Holds = "a " + kind + ", which is not a limit record"
		}
	}
}

// holdsText says what a string is under a key that no limit has. Its first bytes were read.
func holdsText(value *layouts.Value) string {
	if _, err := store.DecodeRecordLimit(value.Text); err == nil {
		return "a limit record, under a key that no limit has"
	}
	if len(value.Text) >= firstBytes {
		return fmt.Sprintf("at least %d bytes that are not a limit record", firstBytes)
	}
	return fmt.Sprintf("%d bytes that are not a limit record", len(value.Text))
}
