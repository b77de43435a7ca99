package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostDescribed is the most members of a value that are read to recognize it.
const mostDescribed = 100

// described says what a store key holds, if it looks like a limit of another limiter. A value that cannot be read
// looks like nothing.
func described(ctx context.Context, client redis.Cmdable, storeKey string) string {
	kind, err := client.Type(ctx, storeKey).Result()
	if err != nil {
		return ""
	}
	value := layouts.Value{StoreKey: storeKey, Type: layouts.ValueType(kind)}
	switch value.Type {
	case layouts.StringValue:
		value.Text, err = client.GetRange(ctx, storeKey, 0, layouts.MostText-1).Bytes()
		value.Length = int64(len(value.Text))
	case layouts.HashValue:
		if value.Length, err = client.HLen(ctx, storeKey).Result(); err != nil || value.Length > mostDescribed {
			return ""
		}
		var fields map[string]string
		fields, err = client.HGetAll(ctx, storeKey).Result()
		for name, text := range fields {
			value.Members = append(value.Members, layouts.Member{Name: name, Text: text})
		}
	case layouts.ListValue:
		if value.Length, err = client.LLen(ctx, storeKey).Result(); err != nil || value.Length > mostDescribed {
			return ""
		}
		var members []string
		members, err = client.LRange(ctx, storeKey, 0, mostDescribed-1).Result()
		for _, member := range members {
			value.Members = append(value.Members, layouts.Member{Name: member})
		}
	case layouts.SortedSetValue:
		if value.Length, err = client.ZCard(ctx, storeKey).Result(); err != nil || value.Length > mostDescribed {
			return ""
		}
		var members []redis.Z
		members, err = client.ZRangeWithScores(ctx, storeKey, -mostDescribed, -1).Result()
		for _, member := range members {
			name, _ := member.Member.(string)
			value.Members = append(value.Members, layouts.Member{Name: name, Score: member.Score})
		}
	default: // others follow below
	}
	ttl, ttlErr := client.PTTL(ctx, storeKey).Result()
	now, timeErr := client.Time(ctx).Result()
	if err != nil || ttlErr != nil || timeErr != nil {
		return ""
	}
	value.TTL = max(ttl, -1*time.Nanosecond)
	return layouts.Describe(&value, store.InstantOf(now)).Text
}
