package connect

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redisserver"
)

// SentinelHealth is the answer of one Sentinel about the master.
type SentinelHealth struct {
	Address string
	// Problem says why the fields below are unknown; nil if they are known.
	Problem error
	// Known is the number of Sentinels that it knows, including itself; Quorum is how many have to agree that the
	// master is down.
	Known, Quorum int
	// NoQuorum says why too few are reachable to replace the master; empty if there are enough.
	NoQuorum string
	// Down: it considers the master down.
	Down bool
}

// SentinelsOf asks all Sentinels of a URL concurrently. It returns none for other URLs.
func SentinelsOf(ctx context.Context, text string, options Options) ([]SentinelHealth, error) {
	scheme, _, _ := strings.Cut(text, ":")
	if !strings.HasSuffix(scheme, "+sentinel") {
		return nil, nil
	}
	u, err := parseRedisURL(text)
	if err != nil {
		return nil, err
	}
	config, err := u.tlsConfig(options)
	if err != nil {
		return nil, err
	}
	addresses, err := u.addresses(sentinelPort)
	if err != nil {
		return nil, err
	}
	m := u.watched(addresses, config, options)
	all := make([]SentinelHealth, len(addresses))
	var asking panics.Group
	for i, address := range addresses {
		asking.Go(func() {
			client := u.sentinel(address, config, options)
			defer client.Close()
			all[i] = m.health(ctx, client)
			all[i].Address = address
		})
	}
	return all, asking.Wait()
}

// health asks one Sentinel about the master.
func (m *watchedMaster) health(ctx context.Context, sentinel *redis.Client) (h SentinelHealth) {
	about, err := sentinel.Do(ctx, "SENTINEL", "MASTER", m.name).Result()
	if err != nil {
		h.Problem = m.plain(err)
		return h
	}
	fields := map[string]string{}
	switch about := about.(type) {
	case map[any]any: // by RESP3
		for name, value := range about {
			fields[wordOf(name)] = wordOf(value)
		}
	case []any:
		for i := 0; i+1 < len(about); i += 2 {
			fields[wordOf(about[i])] = wordOf(about[i+1])
		}
	}
	others, _ := strconv.Atoi(fields["num-other-sentinels"])
	h.Known = others + 1
	h.Quorum, _ = strconv.Atoi(fields["quorum"])
	h.Down = strings.Contains(fields["flags"], "_down")
	if err := sentinel.Do(ctx, "SENTINEL", "CKQUORUM", m.name).Err(); redisserver.IsErrorReply(err, "NOQUORUM") {
		h.NoQuorum = m.secrets.Answer(strings.TrimPrefix(err.Error(), "NOQUORUM "))
	}
	return h
}

// wordOf returns an answer that is a text, and "" for any other.
func wordOf(answer any) string {
	text, _ := answer.(string)
	return text
}
