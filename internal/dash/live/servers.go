package live

import (
	"context"
	"errors"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// AskServers asks all masters. message writes why one does not answer, or does not tell. An error is why none can be
// asked.
func AskServers(ctx context.Context, servers *redisserver.Servers,
	message func(error) string) (all []Server, err error) {
	var problems []error
	answers := false
	for _, a := range servers.Ask(ctx) {
		s := Server{Name: a.Address, RoundTrip: a.RoundTrip}
		if a.Err != nil {
			problems, s.Problem = append(problems, a.Err), message(a.Err)
		} else {
			version := a.Info.Version()
			s.Version, s.Role = version.Product+" "+version.Text, a.Info["role"]
			s.OpsPerSecond, s.UsedMemory = a.Info.Int("instantaneous_ops_per_sec"), a.Info.Int("used_memory")
			s.MaxMemory = a.Info.Int("maxmemory")
		}
		answers = answers || !store.IsAway(a.Err) && !errors.Is(a.Err, store.ErrRefused)
		all = append(all, s)
	}
	if answers {
		return all, nil
	}
	return all, errors.Join(problems...)
}
