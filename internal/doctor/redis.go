package doctor

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Redis examines the servers of client. It changes nothing in them. After an error the report has what was found
// before.
func Redis(ctx context.Context, client redis.UniversalClient, options Options) (*Report, error) {
	if err := store.ValidatePrefix(options.Prefix); err != nil {
		return &Report{}, err
	}
	e := &examination{Options: options, client: client, servers: redisserver.New(client, options.Prefix)}
	err := e.run(ctx)
	e.report.sort()
	return &e.report, err
}

func (e *examination) run(ctx context.Context) error {
	servers, err := e.masters(ctx)
	if err != nil {
		return e.unreachable(&server{alone: e.servers}, err)
	}
	e.report.add(judgeTransport(e.Transport, e.servers.Nodes(ctx), e.servers.Redact)...)
	var failed error
	var up []*server
	pings, errs := make([][]time.Duration, len(servers)), make([]error, len(servers))
	var pinging panics.Group // concurrently, since time-outs of silent ones would add up
	for i, s := range servers {
		pinging.Go(func() { pings[i], errs[i] = e.ping(ctx, s) })
	}
	if err := pinging.Wait(); err != nil {
		return err
	}
	for i, s := range servers {
		if errs[i] != nil {
			failed = errors.Join(failed, e.unreachable(s, errs[i]))
			continue
		}
		e.report.Reached = true
		e.add(s, judgeLatency(pings[i]))
		up = append(up, s)
	}
	if len(up) == 1 && !e.servers.IsCluster() {
		if is, err := e.isSentinel(ctx, up[0]); is || err != nil {
			return err
		}
	}
	e.report.add(judgeSentinels(e.Sentinels)...)
	for _, check := range []func(context.Context, []*server) error{
		e.eachServer, e.clocks, e.cluster, e.keys, e.published,
	} {
		if len(up) == 0 || ctx.Err() != nil {
			break
		}
		if err := check(ctx, up); err != nil {
			return errors.Join(failed, e.servers.Explain(err))
		}
	}
	return errors.Join(failed, ctx.Err())
}

// masters returns the servers that get takes.
func (e *examination) masters(ctx context.Context) ([]*server, error) {
	clients, err := e.servers.Masters(ctx)
	servers := make([]*server, len(clients))
	for i, client := range clients {
		servers[i] = &server{client: client, alone: redisserver.New(client, e.Prefix)}
		if e.servers.IsCluster() {
			servers[i].name = e.servers.Redact(client.Options().Addr)
		}
	}
	return servers, err
}

// unreachable adds the finding that a server gave no answer, or refused to, and returns the error as one of the
// limiter.
func (e *examination) unreachable(s *server, err error) error {
	e.unreached = true
	wrong := redisserver.WrongAnswer(err)
	err = s.alone.Explain(err)
	advice := "check that it runs, and that its address, firewall and TLS let you through"
	switch {
	case wrong != nil:
		advice = "another program listens there, or one in between changes the answers; check the host and the port"
	case errors.Is(err, store.ErrRefused):
		advice = "check the user name and password, or ask the server's operator for the rights (docs/operations.md)"
	}
	e.add(s, fail("reachable", oneLine(err), advice))
	return err
}

// published looks at what is published in the store.
func (e *examination) published(ctx context.Context, _ []*server) error {
	found, err := judgeTables(ctx, e.Store)
	e.report.add(found...)
	return err
}

// judgeTransport judges who can read the password, and answer in a server's place. nodes are the nodes of a Cluster,
// and redact removes secrets from addresses.
func judgeTransport(t redisserver.Transport, nodes []string, redact func(string) string) (found []Finding) {
	if t.Unchecked {
		return []Finding{warn("transport", "TLS, but the server's certificate is not checked (tls_insecure=true): "+
			"anybody in between can read the password and forge answers",
			"leave tls_insecure out; for an authority of your own give tls_ca=FILE, "+
				"for another name tls_server_name=NAME (docs/redis.md)")}
	}
	receivers := t.PasswordTo
	if t.LogsIn {
		receivers = append(slices.Clone(receivers), nodes...)
	}
	var far []string
	for _, address := range receivers {
		if host, _, err := net.SplitHostPort(address); err == nil && !t.TLS && !redisserver.IsLocal(host) {
			far = append(far, redact(address))
		}
	}
	if len(far) == 0 {
		return nil
	}
	slices.Sort(far)
	return []Finding{warn("transport", "the password goes unencrypted to "+strings.Join(slices.Compact(far), ", ")+
		": anybody in between can read it", "have the server speak TLS and write rediss in place of redis in its URL "+
		"(docs/redis.md), or connect by a tunnel that ends on this machine")}
}

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
	for _, name := range []string{"save", "stop-writes-on-bgsave-error"} {
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
