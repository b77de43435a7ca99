package lanes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func clusterSender() *Sender {
	client := redis.NewClusterClient(&redis.ClusterOptions{})
	return NewSender(client, redisserver.New(client, "rl"), Settings{})
}

// That the outcome of one call is unknown is not hidden by another call of the same
// Cluster that was never sent: whoever hears only of that believes nothing happened.
func TestEachBatchTellsAnUnknownOutcome(t *testing.T) {
	s := clusterSender()
	keys := []string{"a", "b"} // of different slots
	for _, order := range [][]error{{store.ErrUnavailable, store.ErrOutcomeUnknown},
		{store.ErrOutcomeUnknown, store.ErrUnavailable}} {
		var both sync.WaitGroup
		both.Add(2)
		first := make(chan struct{})
		err := s.EachBatch(context.Background(), keys, 10, func(batch []int) error {
			both.Done()
			both.Wait()
			if batch[0] == 0 {
				defer close(first)
				return fmt.Errorf("first: %w", order[0])
			}
			<-first
			return fmt.Errorf("second: %w", order[1])
		})
		if !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("of %v it returns %v", order, err)
		}
	}
}
