// Package cost measures what decisions cost the servers, the network and this process.
//
// It reads the servers' own counters before and after (INFO), and counts commands with a hook of the client. The
// counters of a server include all its clients, so the traffic of others is in the figures. A warning says so if it
// is visible.
package cost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
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
