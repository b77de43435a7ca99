package doctor

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// server is one master, or the one server there is.
type server struct {
	client *redis.Client
	name   string            // empty if it is the only one
	store  *redisstore.Store // for its errors
	before info              // its INFO when the examination began
}

// examination is one of a Redis.
type examination struct {
	Options
	client redis.UniversalClient
	store  *redisstore.Store // for errors
	report Report
}

// Redis examines the servers of client. It changes nothing in them. After an error
// the report has what was found before.
func Redis(ctx context.Context, client redis.UniversalClient, options Options) (*Report, error) {
	store, err := redisstore.New(client, redisstore.WithPrefix(options.Prefix), redisstore.WithoutHooks())
	if err != nil {
		return &Report{}, err
	}
	e := &examination{Options: options, client: client, store: store}
	err = e.run(ctx)
	e.report.sort()
	return &e.report, err
}

func (e *examination) run(ctx context.Context) error {
	servers, err := e.masters(ctx)
	if err != nil {
		return e.unreachable(&server{store: e.store}, err)
	}
	e.report.add(judgeTransport(e.Transport, e.nodes(ctx), e.store.Redact)...)
	var failed error
	var up []*server
	pings, errs := make([][]time.Duration, len(servers)), make([]error, len(servers))
	var pinging panics.Group // at once, or silent ones would add up
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
	for _, check := range []func(context.Context, []*server) error{
		e.eachServer, e.clocks, e.cluster, e.keys, e.evictions,
	} {
		if len(up) == 0 || ctx.Err() != nil {
			break
		}
		if err := check(ctx, up); err != nil {
			return errors.Join(failed, e.store.Explain(err))
		}
	}
	return errors.Join(failed, ctx.Err())
}

// masters returns the servers that takes go to.
func (e *examination) masters(ctx context.Context) ([]*server, error) {
	cluster, is := e.client.(*redis.ClusterClient)
	if !is {
		single, is := e.client.(*redis.Client)
		if !is {
			return nil, errors.New("a client of a kind that is not known")
		}
		return []*server{{client: single, store: e.store}}, nil
	}
	var mu sync.Mutex
	var servers []*server
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) (err error) {
		defer panics.Catch(&err) // it is the client's goroutine
		store, err := redisstore.New(master, redisstore.WithoutHooks())
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, &server{client: master, name: e.store.Redact(master.Options().Addr), store: store})
		return err
	})
	slices.SortFunc(servers, func(a, b *server) int { return strings.Compare(a.name, b.name) })
	if n := len(servers); err == nil && (n == 0 || n > redisstore.MostMasters) {
		err = fmt.Errorf("%w: %s names %s of a Cluster, and one has 1 to %d", limiter.ErrRefused,
			"the server", plural(n, "master"), redisstore.MostMasters)
	}
	return servers, err
}

// nodes returns the addresses of all nodes of a Cluster that the client knows.
func (e *examination) nodes(ctx context.Context) (addresses []string) {
	if cluster, is := e.client.(*redis.ClusterClient); is {
		var mu sync.Mutex
		cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			addresses = append(addresses, node.Options().Addr)
			return nil
		})
	}
	return addresses
}

func (e *examination) add(s *server, findings ...Finding) {
	for i := range findings {
		findings[i].Server = s.name
	}
	e.report.add(findings...)
}

// unreachable adds the finding that a server gave no answer, or refused to, and
// returns the error as the limiter's.
func (e *examination) unreachable(s *server, err error) error {
	err = s.store.Explain(err)
	advice := "look whether it runs, and whether its address, firewall and TLS let you through"
	if errors.Is(err, limiter.ErrRefused) {
		advice = "look at the user name and password, or ask who runs the server for the rights (docs/operations.md)"
	}
	e.report.add(Finding{Check: "reachable", Status: Fail, Server: s.name, Summary: oneLine(err), Advice: advice})
	return err
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

const pings = 100

// ping returns how long so many exchanges take. The first, which may have to
// connect, does not count.
func (e *examination) ping(ctx context.Context, s *server) ([]time.Duration, error) {
	times := make([]time.Duration, 0, pings)
	for i := range pings + 1 {
		begun := time.Now()
		err := s.client.Ping(ctx).Err()
		if err != nil && !lacksRight(err) { // a refusal takes as long
			return nil, err
		}
		if i > 0 {
			times = append(times, time.Since(begun))
		}
	}
	return times, nil
}

// isAnswer reports whether err is an answer of the server, as against none.
func isAnswer(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// lacksRight reports whether the server says that the user may not do this.
func lacksRight(err error) bool {
	return isAnswer(err) && strings.HasPrefix(err.Error(), "NOPERM")
}

// cannotLook adds the finding that a check needs what the server does not allow. s
// is nil for a check of all servers together.
func (e *examination) cannotLook(s *server, check, command string, err error) {
	f := Finding{Check: check, Status: Warn, Data: map[string]any{"command": command}}
	if s != nil {
		f.Server = s.name
	}
	if lacksRight(err) {
		f.Summary = "cannot be looked at: the user lacks the right to " + strings.ToUpper(strings.ReplaceAll(command, "|", " "))
		f.Advice = shell.SetUser(redisstore.User(e.client), "+"+command)
		if readVerdict(err.Error()) == keyDenied {
			f.Summary = "cannot be looked at: the user lacks the right to the keys under the prefix " + e.Prefix
			f.Advice = shell.SetUser(redisstore.User(e.client), redisstore.KeyRule(e.Prefix, false))
		}
	} else {
		f.Summary = "cannot be looked at: " + strings.ToUpper(strings.ReplaceAll(command, "|", " ")) + " fails: " + oneLine(e.store.Explain(err))
		f.Advice = "ask who runs the server; some services do not offer it"
	}
	e.report.add(f)
}

// eachServer looks at what every server has for itself.
func (e *examination) eachServer(ctx context.Context, servers []*server) error {
	for _, s := range servers {
		config, err := e.config(ctx, s)
		if err != nil {
			return err
		}
		text, err := s.client.Info(ctx).Result()
		if err != nil && !isAnswer(err) {
			return err
		}
		if err != nil {
			e.cannotLook(s, "version", "info", err)
		} else {
			s.before = redactedInfo(text, s.store)
			e.add(s, judgeVersion(s.before), judgePersistence(s.before, config), judgeMemory(s.before))
			e.add(s, judgeRole(s.before, config)...)
		}
		readOnly, err := e.rights(ctx, s)
		if err != nil {
			return err
		}
		if err := e.scripts(ctx, s, config, readOnly); err != nil {
			return err
		}
	}
	return nil
}

// config returns the settings that INFO does not tell, none without the right.
func (e *examination) config(ctx context.Context, s *server) (info, error) {
	config := info{}
	for _, name := range []string{"save", "stop-writes-on-bgsave-error", "min-replicas-to-write", "lua-time-limit"} {
		values, err := s.client.ConfigGet(ctx, name).Result()
		if err != nil && !isAnswer(err) {
			return nil, err
		}
		if err != nil {
			e.cannotLook(s, "settings", "config|get", err)
			return config, nil
		}
		for name, value := range values {
			config[name] = redactField(value, s.store)
		}
	}
	return config, nil
}

// scripts looks at what of ours the server has cached. readOnly says whether it has
// EVALSHA_RO.
func (e *examination) scripts(ctx context.Context, s *server, config info, readOnly bool) error {
	var shas []string
	for _, source := range lua.All() {
		sum := sha1.Sum([]byte(source)) // the name that a server caches it by
		shas = append(shas, hex.EncodeToString(sum[:]))
	}
	facts := scriptFacts{total: len(shas), busyAfter: config["lua-time-limit"], readOnly: readOnly}
	cached, err := s.client.ScriptExists(ctx, shas...).Result()
	switch {
	case err == nil:
		facts.asked = true
		for _, is := range cached {
			if is {
				facts.cached++
			}
		}
	case !isAnswer(err):
		return err
	case !lacksRight(err):
		e.cannotLook(s, "scripts", "script|exists", err)
		return nil
	}
	e.add(s, judgeScripts(facts))
	return nil
}

// clocks asks each server for its time, and believes the fastest answer.
func (e *examination) clocks(ctx context.Context, servers []*server) error {
	const samples = 10
	var skews []skew
	for _, s := range servers {
		best := skew{server: cmp.Or(s.name, "server"), off: -1}
		for range samples {
			begun := e.Now()
			theirs, err := s.client.Time(ctx).Result()
			took := e.Now().Sub(begun)
			if err != nil && !isAnswer(err) {
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

// evictions looks again at what was evicted, now that some time has gone by.
func (e *examination) evictions(ctx context.Context, servers []*server) error {
	for _, s := range servers {
		if s.before == nil {
			continue
		}
		text, err := s.client.Info(ctx, "stats").Result()
		if err != nil {
			return err
		}
		e.add(s, judgeEviction(s.before, parseInfo(text).number("evicted_keys")-s.before.number("evicted_keys")))
	}
	return nil
}
