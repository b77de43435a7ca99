package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// cluster looks at a Cluster as a whole, as each of its masters sees it.
func (e *examination) cluster(ctx context.Context, servers []*server) error {
	if !e.servers.IsCluster() {
		return nil
	}
	about, err := e.servers.Info(servers[0].client.ClusterInfo(ctx))
	if redisserver.IsReply(err) {
		e.cannotLook(servers[0], "cluster", "cluster|info", err)
	} else if err != nil {
		return err
	}
	var nodes []redisserver.Node
	var failing []string
	for _, s := range servers {
		text, err := s.client.ClusterNodes(ctx).Result()
		if redisserver.IsReply(err) {
			e.cannotLook(s, "cluster", "cluster|nodes", err)
			return nil
		}
		if err != nil {
			return err
		}
		nodes = redisserver.ParseNodes(text)
		for _, n := range nodes {
			if address := e.servers.Redact(n.Address); isFailing(n) && !slices.Contains(failing, address) {
				failing = append(failing, address)
			}
		}
	}
	e.report.add(judgeCluster(about["cluster_state"], nodes, failing)...)
	return nil
}

// judgeCluster judges slots and nodes; state is that of CLUSTER INFO, empty if it is not known. judgeRole judges
// whether each master has replicas.
func judgeCluster(state string, nodes []redisserver.Node, failing []string) (found []Finding) {
	var covered, masters int
	for _, n := range nodes {
		covered += n.SlotCount()
		if len(n.Slots) > 0 {
			masters++
		}
	}
	switch {
	case covered < redisserver.SlotCount:
		found = append(found,
			fail("cluster", fmt.Sprintf("%d of %d slots have no master: limits in them cannot be decided",
				redisserver.SlotCount-covered, redisserver.SlotCount),
				"bring the missing masters back, or redis-cli --cluster fix"))
	case state != "" && state != "ok":
		found = append(found, fail("cluster", "cluster_state is "+state+": nothing is decided",
			"look at CLUSTER INFO and CLUSTER NODES for what is missing; usually it is a majority of the masters"))
	default:
		found = append(found, fine("cluster", "all %d slots covered by %s", covered, output.Count(masters, "master")))
	}
	if len(failing) > 0 {
		found = append(found, fail("cluster", "flagged as failing: "+strings.Join(failing, ", "),
			"check that these nodes run and can be reached; CLUSTER FORGET those that will not come back"))
	}
	return found
}

// isFailing reports whether a node does not answer, as seen by the reporting node.
func isFailing(n redisserver.Node) bool {
	return n.Is("fail") || n.Is("fail?") || n.Is("pfail") || n.Is("noaddr")
}

// fewSentinels is the number of Sentinels below which the failure of one can be too many.
const fewSentinels = 3

// judgeSentinels judges whether Sentinels would replace a master that fails.
func judgeSentinels(sentinels []redisserver.SentinelHealth) []Finding {
	if len(sentinels) == 0 {
		return nil
	}
	var silent, down, noQuorum []string
	var known, quorum int
	for _, s := range sentinels {
		if s.Problem != nil {
			silent = append(silent, fmt.Sprintf("%s (%s)", s.Address, oneLine(s.Problem)))
			continue
		}
		if s.Down {
			down = append(down, s.Address)
		}
		if s.NoQuorum != "" {
			noQuorum = append(noQuorum, s.Address+": "+s.NoQuorum)
		}
		known, quorum = max(known, s.Known), max(quorum, s.Quorum)
	}
	if len(silent) == len(sentinels) {
		return []Finding{fail("sentinel", "no Sentinel answers: "+strings.Join(silent, ", "),
			"check that the Sentinels run; without them nothing replaces a master that fails")}
	}
	f := fine("sentinel", "%s watch the master, and %d have to agree that it is down",
		output.Count(known, "Sentinel"), quorum)
	switch {
	case len(noQuorum) > 0:
		f = fail("sentinel", "no failover is possible now: "+strings.Join(noQuorum, "; "),
			"bring the missing Sentinels back, or "+
				"lower the quorum with SENTINEL SET; forget those that are gone with SENTINEL RESET")
	case known < fewSentinels, quorum > known-1:
		f = warn("sentinel", f.Summary+": no failover survives the loss of one",
			fmt.Sprintf("run at least %d Sentinels, on "+
				"machines that do not fail together, with a quorum of all but one at most", fewSentinels))
	}
	found := []Finding{f}
	if len(down) > 0 {
		found = append(found, fail("sentinel", "the master is down, says "+strings.Join(down, ", "),
			"look at SENTINEL MASTER and at the Sentinel's log"))
	}
	if len(silent) > 0 {
		found = append(found, warn("sentinel", "no answer from "+strings.Join(silent, ", "),
			"check that it runs and can be reached from here"))
	}
	return found
}

// isSentinel reports whether the only server is a Sentinel, which holds no limits, and adds a finding then.
func (e *examination) isSentinel(ctx context.Context, s *server) (bool, error) {
	about, err := s.alone.Info(s.client.Info(ctx, "server"))
	if redisserver.IsReply(err) || err == nil && about["redis_mode"] != "sentinel" {
		return false, nil // a server that refuses INFO is examined, too
	}
	if err != nil {
		return false, s.alone.Explain(err)
	}
	e.add(s, fail("sentinel", "this is a Sentinel, which holds no limits",
		"give --store redis+sentinel://HOST:PORT/MASTER; redis-cli SENTINEL MASTERS names the masters"))
	return true, nil
}
