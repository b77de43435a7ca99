// Package cost measures what decisions cost the servers, the network and this process.
//
// It reads the servers' own counters before and after (INFO), and counts commands with a hook of the client. The
// counters of a server include all its clients, so the traffic of others is in the figures. A warning says so if it
// is visible.
package cost

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Meter measures the cost of loads, one load after the other. Only the decisions that it measures may use the
// client at that time.
type Meter struct {
	client  redis.UniversalClient
	servers *redisserver.Servers // nil without a client
	sent    counters
}

// New returns a Meter of the decisions that go through client. For an embedded store client is nil, and only the
// time of this process is measured.
//
// The client must be new: in a Cluster, exchanges with nodes that it already knows are not counted. Use only one
// Meter per client, because its hook stays.
func New(client redis.UniversalClient) *Meter {
	m := &Meter{client: client}
	switch c := client.(type) {
	case nil:
		return m
	case *redis.ClusterClient:
		// A pipeline can go to several nodes, and is an exchange with each.
		c.OnNewNode(func(node *redis.Client) { node.AddHook(&m.sent) })
	default:
		c.AddHook(&m.sent)
	}
	m.servers = redisserver.New(client, "")
	return m
}

// Measurement is the cost of a load since [Meter.Begin].
type Measurement struct {
	meter *Meter
	// The state at the beginning:
	before  []reading
	failed  error // why the servers' counters could not be read
	already counts
	cpu     time.Duration
}

// Begin reads all counters before the first decision. If the servers' counters cannot be read, [Measurement.End]
// returns a warning.
func (m *Meter) Begin(ctx context.Context) *Measurement {
	begun := &Measurement{meter: m}
	if m.client != nil {
		begun.before, begun.failed = m.read(ctx)
	}
	begun.already = m.sent.now()
	begun.cpu, _ = processTime()
	return begun
}

// Server returns the product and the version of the servers, such as "Redis 7.0.15"; empty if unknown, for example
// for lack of a right.
func (b *Measurement) Server() string {
	if len(b.before) == 0 {
		return ""
	}
	return b.before[0].server
}

// End returns the average cost of a decision since Begin, and warnings about these figures. An unknown figure is
// absent, which is no error. Call it after the last decision was answered.
func (b *Measurement) End(ctx context.Context, decisions int64) (cost report.Cost, warnings []string) {
	m := b.meter
	cpu, known := processTime()
	sent := m.sent.now().minus(b.already)
	if decisions <= 0 {
		return cost, nil
	}
	each := func(total float64) *float64 {
		total /= float64(decisions)
		return &total
	}
	if known {
		cost.ClientCPU = each(microseconds(cpu - b.cpu))
	}
	if m.client == nil {
		return cost, nil
	}
	cost.RoundTrips = each(float64(sent.exchanges))
	after, err := m.read(ctx)
	if b.failed != nil {
		err = b.failed
	}
	if err != nil {
		return cost, []string{notKnown + m.explain(err)}
	}
	took, problem := between(b.before, after)
	if problem != "" {
		return cost, []string{notKnown + problem}
	}
	if took.hasBytes {
		cost.NetworkIn, cost.NetworkOut = each(float64(took.in)), each(float64(took.out))
	}
	top := took.scripts
	if sent.scripts == 0 {
		top = took.plain
	}
	if top.Calls == 0 && sent.scripts+sent.plain > 0 {
		return cost, append(warnings, "the server's time is not known: it keeps no statistics of commands")
	}
	cost.ServerCPU = each(float64(top.Microseconds))
	cost.Commands = each(float64(took.scripts.Calls + took.plain.Calls))
	own := sent.scripts
	if own == 0 {
		own = sent.plain
	}
	if others := max(0, top.Calls-own) + took.other; others > tolerated(own) {
		cost.Others = others
		warnings = append(warnings, fmt.Sprintf("others used the server at the same time: it ran %d commands "+
			"besides the %d of this run, so its time, commands and bytes are partly theirs", others, own))
	}
	return cost, warnings
}

// notKnown begins the warning that the servers' counters could not be used.
const notKnown = "how much of the server the decisions used is not known: "

// tolerated is the number of other clients' commands that causes no warning: a monitor sends some, and so does
// every client that connects.
func tolerated(own int64) int64 { return max(10, own/100) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// explain says why a server's counters could not be read, and which right is missing.
func (m *Meter) explain(err error) string {
	if !redisserver.LacksRight(err) {
		return strings.ReplaceAll(m.servers.Explain(err).Error(), "\n", "; ")
	}
	return "the user lacks the right to INFO (" + shell.SetUser(redisserver.User(m.client), "+info") + ")"
}

// kind says how a command relates to decisions.
type kind uint8

const (
	other  kind = iota // no part of a decision
	script             // a decision by a script
	plain              // a part of a decision, within a script or alone
)

// kindOf returns the kind of a command by its name in lower case.
func kindOf(command string) kind {
	switch command {
	case "evalsha", "eval", "evalsha_ro", "eval_ro":
		return script
	case "time", "get", "set", "getrange", "setrange", "strlen", "exists", "type", "pttl", "pexpireat", "pexpire", "del":
		return plain
	}
	return other
}

// counters counts commands to the servers. It is a [redis.Hook].
//
// A hook also sees the commands with which a client sets up its connections and learns about a Cluster. They are of
// the kind other, and not counted.
type counters struct {
	redisserver.PassHook
	exchanges, scripts, plain atomic.Int64
}

// counts is a copy of counters.
type counts struct {
	exchanges, scripts, plain int64
}

func (c *counters) now() counts {
	return counts{exchanges: c.exchanges.Load(), scripts: c.scripts.Load(), plain: c.plain.Load()}
}

func (c counts) minus(before counts) counts {
	return counts{exchanges: c.exchanges - before.exchanges, scripts: c.scripts - before.scripts, plain: c.plain - before.plain}
}

// ProcessHook implements [redis.Hook].
func (c *counters) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch kindOf(cmd.Name()) {
		case script:
			c.exchanges.Add(1)
			c.scripts.Add(1)
		case plain:
			c.exchanges.Add(1)
			c.plain.Add(1)
		case other:
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (c *counters) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var scripts, plains int64
		for _, cmd := range cmds {
			switch kindOf(cmd.Name()) {
			case script:
				scripts++
			case plain:
				plains++
			case other:
			}
		}
		if scripts+plains > 0 {
			c.exchanges.Add(1)
			c.scripts.Add(scripts)
			c.plain.Add(plains)
		}
		return next(ctx, cmds)
	}
}

// sampleSize is the number of keys that are measured to estimate the average of all.
const sampleSize = 100

// Sample fills in the average memory of a key in the store, and of a used unit of a sliding log. It measures a
// uniform sample of the keys, which must have names. Keys that are no longer in use do not count, so call it soon
// after the load. It returns warnings about the figures; unknown figures are absent.
func Sample(ctx context.Context, keyspace admin.Keyspace, keys []store.Key, cost *report.Cost) (warnings []string) {
	if len(keys) == 0 {
		return nil
	}
	sample := make([]store.Key, min(sampleSize, len(keys)))
	for i := range sample {
		sample[i] = keys[i*len(keys)/len(sample)]
	}
	var found, bytes, logBytes, logUnits int64
	for entry, err := range keyspace.Scan(ctx, admin.Query{Keys: sample, Bytes: true}) {
		if errors.Is(err, store.ErrForeign) {
			continue // not written by limitctl
		}
		if err != nil {
			return []string{"the memory of keys is not known: " + err.Error()}
		}
		if entry.Bytes == 0 {
			continue // it expired while it was read
		}
		found++
		bytes += entry.Bytes
		if entry.Limit.Algorithm == store.SlidingLog {
			logBytes += entry.Bytes
			logUnits += entry.Decision.Used
		}
	}
	if found == 0 {
		return nil
	}
	perKey := float64(bytes) / float64(found)
	cost.BytesPerKey = &perKey
	if logUnits > 0 {
		perUnit := float64(logBytes) / float64(logUnits)
		cost.BytesPerUnit = &perUnit
	}
	return nil
}
