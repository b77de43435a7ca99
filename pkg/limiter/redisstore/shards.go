package redisstore

import (
	"hash/maphash"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
)

// sharding is where keys are, as far as that matters for which of them one script call can
// have.
type sharding struct {
	// slotOf returns the slot of a subject: those of one slot are together. It is nil if
	// all are.
	slotOf func(subject string) int
	// mayDiffer: it is not known which subjects are together. The client sends a call where
	// its first key is, whatever the others are.
	mayDiffer bool
}

// shardingOf returns the sharding of client's servers.
func shardingOf(client redis.UniversalClient) sharding {
	switch client.(type) {
	case *redis.Client:
		return sharding{}
	case *redis.ClusterClient:
		return sharding{slotOf: redisserver.SlotOf}
	case *redis.Ring:
		seed := maphash.MakeSeed()
		return sharding{slotOf: func(subject string) int { return int(maphash.String(seed, subject)) }, mayDiffer: true}
	}
	return sharding{mayDiffer: true} // a client of the caller's own may be either
}
