package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// clusterFacts is what a Cluster's nodes report about it.
type clusterFacts struct {
	info  redisserver.Info // of CLUSTER INFO
	nodes []redisserver.Node
	// failing are the addresses that a master flags as failing.
	failing []string
	// moving are the slots whose keys are moving, by the masters between which they move.
	moving []int
}

// add adds what one master reports about all nodes.
func (c *clusterFacts) add(nodes []redisserver.Node) {
	c.nodes = nodes
	for _, n := range nodes {
		if isFailing(n) && !slices.Contains(c.failing, n.Address) {
			c.failing = append(c.failing, n.Address)
		}
		for _, slot := range n.Moving {
			if !slices.Contains(c.moving, slot) {
				c.moving = append(c.moving, slot)
			}
		}
	}
}

// cluster looks at a Cluster as a whole. Only the masters concerned know which slots move, so it asks all of them.
func (e *examination) cluster(ctx context.Context, servers []*server) error {
	if !e.servers.IsCluster() {
		return nil
	}
	about, err := e.servers.ClusterInfo(ctx, servers[0].client)
	if redisserver.IsReply(err) {
		e.cannotLook(servers[0], "cluster", "cluster|info", err)
	} else if err != nil {
		return err
	}
	facts := clusterFacts{info: about}
	for _, s := range servers {
		text, err := s.client.ClusterNodes(ctx).Result()
		if redisserver.IsReply(err) {
			e.cannotLook(s, "cluster", "cluster|nodes", err)
			return nil
		}
		if err != nil {
			return err
		}
		nodes := redisserver.ParseNodes(text)
		for i := range nodes {
			nodes[i].Address = e.servers.Redact(nodes[i].Address)
		}
		facts.add(nodes)
	}
	e.report.add(judgeCluster(facts)...)
	return nil
}

// judgeCluster judges slots and nodes. judgeRole judges whether each master has replicas.
func judgeCluster(c clusterFacts) []Finding {
	var covered, masters int
	for _, n := range c.nodes {
		covered += n.SlotCount()
		if len(n.Slots) > 0 {
			masters++
		}
	}
	slots := Finding{Check: "cluster", Status: OK, Summary: fmt.Sprintf("all %d slots covered by %s", redisserver.SlotCount,
		output.Plural(masters, "master")),
		Data: map[string]any{"slots_covered": covered, "masters": masters, "state": c.info["cluster_state"]}}
	switch {
	case covered < redisserver.SlotCount:
		slots.Status = Fail
		slots.Summary = fmt.Sprintf("%d of %d slots have no master: limits in them cannot be decided", redisserver.SlotCount-covered,
			redisserver.SlotCount)
		slots.Advice = "bring the missing masters back, or redis-cli --cluster fix"
	case c.info["cluster_state"] != "" && c.info["cluster_state"] != "ok":
		slots.Status = Fail
		slots.Summary = "cluster_state is " + c.info["cluster_state"] + ": nothing is decided"
		slots.Advice = "look at CLUSTER INFO and CLUSTER NODES for what is missing; usually it is a majority of the masters"
	}
	found := []Finding{slots}
	if len(c.moving) > 0 {
		found = append(found, Finding{Check: "cluster", Status: Warn,
			Summary: fmt.Sprintf("%s moving to another master", areSlots(len(c.moving))),
			Advice:  "scans look at them twice; if nobody is resharding, finish it with redis-cli --cluster fix",
			Data:    map[string]any{"moving_slots": c.moving}})
	}
	if len(c.failing) > 0 {
		found = append(found, Finding{Check: "cluster", Status: Fail, Summary: "flagged as failing: " + strings.Join(c.failing, ", "),
			Advice: "check that these nodes run and can be reached; CLUSTER FORGET those that will not come back",
			Data:   map[string]any{"failing": c.failing}})
	}
	return found
}

// isFailing reports whether a node does not answer, as seen by the reporting node.
func isFailing(n redisserver.Node) bool {
	return n.Is("fail") || n.Is("fail?") || n.Is("pfail") || n.Is("noaddr")
}

func areSlots(n int) string {
	if n == 1 {
		return "1 slot is"
	}
	return fmt.Sprintf("%d slots are", n)
}
