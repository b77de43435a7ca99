package doctor

import (
	"cmp"
	"context"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

const pings = 100

// ping returns how long each ping takes. The first, which may have to connect, does not count.
func (e *examination) ping(ctx context.Context, s *server) ([]time.Duration, error) {
	times := make([]time.Duration, 0, pings)
	for i := range pings + 1 {
		begun := time.Now()
		err := s.client.Ping(ctx).Err()
		if err != nil && !redisserver.LacksRight(err) { // a refusal takes as long
			return nil, err
		}
		if i > 0 {
			times = append(times, time.Since(begun))
		}
	}
	return times, nil
}

// eachServer examines each server by itself.
func (e *examination) eachServer(ctx context.Context, servers []*server) error {
	for _, s := range servers {
		config, err := e.config(ctx, s)
		if err != nil {
			return err
		}
		about, err := s.alone.Info(s.client.Info(ctx))
		if err != nil && !redisserver.IsReply(err) {
			return err
		}
		if err != nil {
			e.cannotLook(s, "version", "info", err)
		} else {
			e.add(s, judgeInfo(about, config)...)
		}
		if err := e.rights(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// config returns settings that are not in INFO; none without the right.
func (e *examination) config(ctx context.Context, s *server) (redisserver.Info, error) {
	config := redisserver.Info{}
	for _, name := range []string{"save", "stop-writes-on-bgsave-error", "min-replicas-to-write"} {
		values, err := s.client.ConfigGet(ctx, name).Result()
		if err != nil && !redisserver.IsReply(err) {
			return nil, err
		}
		if err != nil {
			e.cannotLook(s, "settings", "config|get", err)
			return config, nil
		}
		for name, value := range values {
			config[name] = s.alone.RedactField(value)
		}
	}
	return config, nil
}

// clocks asks each server for its time, and uses the fastest answer.
func (e *examination) clocks(ctx context.Context, servers []*server) error {
	const samples = 10
	var skews []skew
	for _, s := range servers {
		best := skew{server: cmp.Or(s.name, "server"), off: -1}
		for range samples {
			begun := e.Now()
			theirs, err := s.client.Time(ctx).Result()
			took := e.Now().Sub(begun)
			if err != nil && !redisserver.IsReply(err) {
				return err
			}
			if err != nil {
				e.cannotLook(s, "clock", "time", err)
				return nil
			}
			if off := took / 2; best.off < 0 || off < best.off {
				best.off, best.ahead = off, theirs.Sub(begun.Add(off))
			}
		}
		skews = append(skews, best)
	}
	e.report.add(judgeClocks(skews))
	return nil
}
