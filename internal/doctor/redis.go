package doctor

import (
	"context"
	"errors"
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
	e := &examination{Options: options, client: client, servers: redisserver.New(client, options.Prefix), holdsLimits: true}
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
		e.eachServer, e.clocks, e.cluster, e.keys, e.evictions, e.tables,
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
	e.report.add(Finding{Check: "reachable", Status: Fail, Server: s.name, Summary: oneLine(err), Advice: advice})
	return err
}

// tables looks at the store's denials and overrides.
func (e *examination) tables(ctx context.Context, _ []*server) error {
	found, err := examineTables(ctx, e.Store)
	e.report.add(found...)
	return err
}
