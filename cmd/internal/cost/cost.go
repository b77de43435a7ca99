// Package cost measures what decisions take of the servers, of the network and of
// this process.
//
// It reads the servers' own counters before and after (INFO), and counts what is sent to
// them by a hook of their client. The counters of a server are about all of its clients,
// so the traffic of others is in the figures too. A warning says so when it shows.
package cost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/redisserver"
)

// Meter measures what loads take, one load after the other. Only the decisions that it
// measures may use it at the same time.
type Meter struct {
	client  redis.UniversalClient
	servers *redisserver.Servers // nil without a client
	sent    counters
}

// New returns a Meter of the decisions that go through client. For an embedded store
// client is nil, and only the time of this process is measured.
//
// The client must be new: in a Cluster, exchanges with nodes that it knows already are
// not counted. A client should get one Meter only, because the Meter's hook stays on it.
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

// Measurement is what a load takes, from [Meter.Begin] on.
type Measurement struct {
	meter *Meter
	// The state at the beginning:
	before  []reading
	failed  error // why the servers' counters could not be read
	already counts
	cpu     time.Duration
}

// Begin reads all counters before the first decision. If the servers' counters cannot be
// read, [Measurement.End] warns of it.
func (m *Meter) Begin(ctx context.Context) *Measurement {
	begun := &Measurement{meter: m}
	if m.client != nil {
		begun.before, begun.failed = m.read(ctx)
	}
	begun.already = m.sent.now()
	begun.cpu, _ = processTime()
	return begun
}

// Server returns the product and the version of the servers, such as "Redis 7.0.15", and empty if
// they did not tell, as for lack of a right.
func (b *Measurement) Server() string {
	if len(b.before) == 0 {
		return ""
	}
	return b.before[0].server
}

// End returns what each decision since Begin took on average, and what a reader must
// know about these figures. A figure that is not known is absent, which is not an error.
// Call it after the last decision was answered.
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
		warnings = append(warnings, fmt.Sprintf("others used the server at the same time: it ran %d commands "+
			"besides the %d of this run, so its time, commands and bytes are partly theirs", others, own))
	}
	return cost, warnings
}

// notKnown begins the warning that the servers' counters could not be used.
const notKnown = "how much of the server the decisions used is not known: "

// tolerated is how many commands of others are not worth a warning: a monitor sends some,
// and so does every client that connects.
func tolerated(own int64) int64 { return max(10, own/100) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// explain says why a server's counters could not be read, and which right is missing.
func (m *Meter) explain(err error) string {
	if !redisserver.LacksRight(err) {
		return strings.ReplaceAll(m.servers.Explain(err).Error(), "\n", "; ")
	}
	return "the user lacks the right to INFO (" + shell.SetUser(redisserver.User(m.client), "+info") + ")"
}
