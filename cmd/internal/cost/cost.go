// Package cost measures what decisions take of the servers, of the network and of
// this process.
//
// The servers' own counters are read before and after (INFO); what goes to them is
// counted by a hook of their client. What a server says is about all of its
// clients: others' traffic is in the figures, and said to be there when it shows.
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

// Meter measures a load, or several one after the other. It is not safe for
// concurrent use, other than by the decisions that it measures.
type Meter struct {
	client  redis.UniversalClient
	servers *redisserver.Servers // nil without a client
	sent    counters

	// When the load began:
	before  []reading
	failed  error // why there is no before
	already counts
	cpu     time.Duration
}

// New returns a Meter of the decisions that go through client, which is nil for an
// embedded store: then this process's own time is all that is measured. client
// must be new, for in a Cluster what goes to nodes that it knows already is not
// counted, and should get one Meter, since each stays on it.
func New(client redis.UniversalClient) *Meter {
	m := &Meter{client: client}
	switch c := client.(type) {
	case nil:
		return m
	case *redis.ClusterClient:
		// An exchange is one with a node: a pipeline goes to several.
		c.OnNewNode(func(node *redis.Client) { node.AddHook(&m.sent) })
	default:
		c.AddHook(&m.sent)
	}
	m.servers = redisserver.New(client, "")
	return m
}

// Begin notes where things stand before the first decision. Should the servers not
// tell, [Meter.End] warns of it.
func (m *Meter) Begin(ctx context.Context) {
	if m.client != nil {
		m.before, m.failed = m.read(ctx)
	}
	m.already = m.sent.now()
	m.cpu, _ = processTime()
}

// End returns what each of the decisions since Begin took, on average, and what a
// reader must know of the figures. Those that could not be learnt are absent, which
// is no error. It is for when the last decision has its answer.
func (m *Meter) End(ctx context.Context, decisions int64) (cost report.Cost, warnings []string) {
	cpu, known := processTime()
	sent := m.sent.now().minus(m.already)
	if decisions <= 0 {
		return cost, nil
	}
	each := func(total float64) *float64 {
		total /= float64(decisions)
		return &total
	}
	if known {
		cost.ClientCPU = each(microseconds(cpu - m.cpu))
	}
	if m.client == nil {
		return cost, nil
	}
	cost.RoundTrips = each(float64(sent.exchanges))
	after, err := m.read(ctx)
	if m.failed != nil {
		err = m.failed
	}
	if err != nil {
		return cost, []string{"what the decisions took of the server is not known: " + m.explain(err)}
	}
	took, problem := between(m.before, after)
	if problem != "" {
		return cost, []string{"what the decisions took of the server is not known: " + problem}
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
		warnings = append(warnings, fmt.Sprintf(
			"others use the server, too: it ran %d commands meanwhile besides the %d of this run, so that its time, commands and bytes are "+
				"partly theirs", others, own))
	}
	return cost, warnings
}

// tolerated is how many commands of others make no difference worth a word, be they
// of a monitor or of clients that connect.
func tolerated(own int64) int64 { return max(10, own/100) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// explain says why a server did not tell, and which right is lacking.
func (m *Meter) explain(err error) string {
	if !redisserver.LacksRight(err) {
		return strings.ReplaceAll(m.servers.Explain(err).Error(), "\n", "; ")
	}
	return "the user lacks the right to INFO (" + shell.SetUser(redisserver.User(m.client), "+info") + ")"
}
