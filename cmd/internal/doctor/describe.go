package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostDescribed is how many members of a value are read to tell what it looks like.
const mostDescribed = 100

// described returns what a store key holds, if it looks like a limit of another limiter. What
// cannot be read looks like nothing.
func described(ctx context.Context, client redis.Cmdable, storeKey string) string {
	kind, err := client.Type(ctx, storeKey).Result()
	if err != nil {
		return ""
	}
	value := foreign.Value{StoreKey: storeKey, Type: foreign.ValueType(kind)}
	switch value.Type {
	case foreign.StringValue:
		value.Text, err = client.GetRange(ctx, storeKey, 0, foreign.MostText-1).Bytes()
		value.Length = int64(len(value.Text))
	case foreign.HashValue:
		if value.Length, err = client.HLen(ctx, storeKey).Result(); err != nil || value.Length > mostDescribed {
			return ""
		}
		var fields map[string]string
		fields, err = client.HGetAll(ctx, storeKey).Result()
		for name, text := range fields {
			value.Members = append(value.Members, foreign.Member{Name: name, Text: text})
		}
	case foreign.ListValue:
		if value.Length, err = client.LLen(ctx, storeKey).Result(); err != nil || value.Length > mostDescribed {
			return ""
		}
		var members []string
		members, err = client.LRange(ctx, storeKey, 0, mostDescribed-1).Result()
		for _, member := range members {
			value.Members = append(value.Members, foreign.Member{Name: member})
		}
	case foreign.SortedSetValue:
		if value.Length, err = client.ZCard(ctx, storeKey).Result(); err != nil || value.Length > mostDescribed {
			return ""
		}
		var members []redis.Z
		members, err = client.ZRangeWithScores(ctx, storeKey, -mostDescribed, -1).Result()
		for _, member := range members {
			name, _ := member.Member.(string)
			value.Members = append(value.Members, foreign.Member{Name: name, Score: member.Score})
		}
	default: // the others go on below
	}
	ttl, ttlErr := client.PTTL(ctx, storeKey).Result()
	now, timeErr := client.Time(ctx).Result()
	if err != nil || ttlErr != nil || timeErr != nil {
		return ""
	}
	value.TTL = max(ttl, -1*time.Nanosecond)
	return foreign.Describe(&value, store.InstantOf(now)).Text
}
