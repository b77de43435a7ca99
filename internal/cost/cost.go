// Package cost measures what decisions cost the servers and this process.
package cost

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Measurement is the cost of a load since [Begin].
type Measurement struct {
	client  redis.UniversalClient
	servers *redisserver.Servers
	before  map[string]reading
	failed  error // why that could not be read
	cpu     time.Duration
}

// reading has the counters of a master, which include all its clients.
type reading struct {
	run, server    string // its run id, and its product and version
	scripts, plain redisserver.CommandUsage
}

// Begin reads all counters before the first decision. For an embedded store client is nil, and only the time of this
// process is measured. If the servers' counters cannot be read, [Measurement.End] returns a warning.
func Begin(ctx context.Context, client redis.UniversalClient) *Measurement {
	m := &Measurement{client: client}
	if client != nil {
		m.servers = redisserver.New(client, "")
		m.before, m.failed = m.read(ctx)
	}
	m.cpu, _ = processTime()
	return m
}

// Server returns the product and the version of the servers, such as "Redis 7.0.15"; empty if unknown, for example
// for lack of a right.
func (m *Measurement) Server() string {
	for _, r := range m.before {
		return r.server
	}
	return ""
}

// read reads the counters of every master, by its address.
func (m *Measurement) read(ctx context.Context) (map[string]reading, error) {
	var mu sync.Mutex
	readings := map[string]reading{}
	err := m.servers.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		// All sections: servers before Redis 7 accept one section or all.
		text, err := master.Info(ctx, "all").Result()
		info := redisserver.ParseInfo(text)
		r := reading{run: strings.Clone(info["run_id"])}
		if version := info.Version(); version.Text != "" {
			r.server = version.Product + " " + version.Text
		}
		for command, used := range info.Commands() {
			switch command {
			case "evalsha", "eval", "evalsha_ro", "eval_ro":
				r.scripts = sum(r.scripts, used, 1)
			case "time", "get", "set", "getrange", "setrange", "strlen", "exists", "type", "pttl", "pexpireat",
				"pexpire", "del":
				r.plain = sum(r.plain, used, 1)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		readings[master.Options().Addr] = r
		return err
	})
	return readings, err
}

func sum(a, b redisserver.CommandUsage, times int64) redisserver.CommandUsage {
	return redisserver.CommandUsage{Calls: a.Calls + times*b.Calls, Microseconds: a.Microseconds + times*b.Microseconds}
}

var errChanged = errors.New("the masters, or their statistics, changed meanwhile")

// used returns what decisions used of all masters since the beginning: the scripts, whose time includes that of their
// commands, or the commands of a naive implementation.
func (m *Measurement) used(ctx context.Context) (scripts, used redisserver.CommandUsage, err error) {
	after, err := m.read(ctx)
	if m.failed != nil || err != nil {
		return scripts, used, errors.Join(m.failed, err)
	}
	var plain redisserver.CommandUsage
	for address, r := range after {
		b := m.before[address]
		if b.run != r.run || b.scripts.Calls > r.scripts.Calls || b.plain.Calls > r.plain.Calls ||
			len(after) != len(m.before) {
			return scripts, used, errChanged
		}
		scripts, plain = sum(sum(scripts, r.scripts, 1), b.scripts, -1), sum(sum(plain, r.plain, 1), b.plain, -1)
	}
	if scripts.Calls == 0 {
		return scripts, plain, nil
	}
	return scripts, scripts, nil
}

// End returns the average cost of a decision since Begin, and warnings about these figures. An unknown figure is
// absent, which is no error. Call it after the last decision was answered.
func (m *Measurement) End(ctx context.Context, decisions int64) (cost report.Cost, warnings []string) {
	cpu, known := processTime()
	if decisions <= 0 {
		return cost, nil
	}
	each := func(microseconds int64) *float64 {
		average := float64(microseconds) / float64(decisions)
		return &average
	}
	if known {
		cost.ClientCPU = each((cpu - m.cpu).Microseconds())
	}
	if m.client == nil {
		return cost, nil
	}
	scripts, used, err := m.used(ctx)
	switch {
	case redisserver.LacksRight(err):
		err = errors.New("the user lacks the right to INFO (" + shell.SetUser(redisserver.User(m.client), "+info") +
			")")
	case err == nil && used.Calls == 0:
		err = errors.New("it keeps no statistics of commands")
	case err != nil && !errors.Is(err, errChanged):
		err = m.servers.Explain(err)
	}
	if err != nil {
		return cost, []string{"the server's time is not known: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	// A monitor sends some commands, and in a Cluster a decision may take several calls.
	if !m.servers.IsCluster() && scripts.Calls > decisions+max(10, decisions/100) {
		warnings = []string{"others used the server at the same time, so its time is partly theirs"}
	}
	cost.ServerCPU = each(used.Microseconds)
	return cost, warnings
}

// sampleSize is the number of keys that are measured to estimate the average of all.
const sampleSize = 100

// Sample fills in the average memory of a key in the store. It measures a uniform sample of the keys, which must have
// names. Keys that are no longer in use do not count, so call it soon after the load. It returns warnings about the
// figure, which is absent if it is unknown.
func Sample(ctx context.Context, keyspace admin.Keyspace, keys []store.Key, cost *report.Cost) (warnings []string) {
	if len(keys) == 0 {
		return nil
	}
	sample := make([]store.Key, min(sampleSize, len(keys)))
	for i := range sample {
		sample[i] = keys[i*len(keys)/len(sample)]
	}
	found, bytes := 0.0, 0.0
	for entry, err := range keyspace.Scan(ctx, admin.Query{Keys: sample, Bytes: true}) {
		switch {
		case errors.Is(err, store.ErrForeign): // not written by limitctl
		case err != nil:
			return []string{"the memory of keys is not known: " + err.Error()}
		case entry.Bytes > 0: // it did not expire while it was read
			found, bytes = found+1, bytes+float64(entry.Bytes)
		}
	}
	if found > 0 {
		bytes /= found
		cost.BytesPerKey = &bytes
	}
	return nil
}
