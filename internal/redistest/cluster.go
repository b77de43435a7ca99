package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

const (
	slots   = 16384 // of every Cluster
	masters = 3     // the fewest that can agree on a failover
	// busOffset is how far above its port a node listens for the other nodes.
	busOffset = 10000
)

// Cluster is a running Redis Cluster of three masters, with or without a replica each.
type Cluster struct {
	// Masters own a third of the slots each, in order, until slots are moved.
	Masters []*Process
	// Replicas follow the master of the same index; there are none or three.
	Replicas []*Process

	ids map[string]*Process // by the node's id in the cluster
}

// LaunchCluster runs a Cluster of three masters until Stop; args are additional configuration of every node. It
// returns when every node knows the whole Cluster.
func LaunchCluster(args ...string) (*Cluster, error) { return launchCluster(0, args) }

func launchCluster(replicasEach int, args []string) (*Cluster, error) {
	// Short timeouts make a failover quick, but with too short ones a busy machine looks like a dead node. The
	// others do not see a replica until something, such as a ping, was sent to it.
	own := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0",
		"--repl-ping-replica-period", "1"}
	if slices.Contains(args, "--tls-cert-file") {
		own = append(own, "--tls-cluster", "yes", "--tls-replication", "yes")
	}
	nodes, err := launchAll(masters*(1+replicasEach), func() (*Process, error) {
		return launchOn(freeClusterAddr, slices.Concat(own, args))
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Masters: nodes[:masters:masters], Replicas: nodes[masters:]}
	if err := c.form(); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// launchAll launches n processes at once, and none if one fails.
func launchAll(n int, launch func() (*Process, error)) ([]*Process, error) {
	processes, failures := make([]*Process, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { processes[i], failures[i] = launch() })
	}
	all.Wait()
	err := errors.Join(failures...)
	if err != nil {
		stopAll(processes)
		return nil, err
	}
	return processes, nil
}

func stopAll(processes []*Process) {
	for _, p := range processes {
		if p != nil {
			p.Stop()
		}
	}
}

// form makes a Cluster of the nodes.
func (c *Cluster) form() error {
	ctx := context.Background()
	c.ids = make(map[string]*Process)
	for i, node := range c.nodes() {
		id, err := node.id()
		if err != nil {
			return err
		}
		c.ids[id] = node
		client := node.admin()
		defer client.Close()
		// Nodes with the same epoch would first have to settle whose is higher.
		err = client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		if err == nil && i < masters {
			err = client.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err()
		}
		for _, other := range c.nodes()[:i] { // all at once, which is faster than gossip
			if err == nil {
				host, port, _ := net.SplitHostPort(other.Addr)
				err = client.ClusterMeet(ctx, host, port).Err()
			}
		}
		if err != nil {
			return fmt.Errorf("forming a cluster: %w", err)
		}
	}
	for i, replica := range c.Replicas {
		id, err := c.Masters[i].id()
		if err != nil {
			return err
		}
		err = until("a node becoming a replica", func(ctx context.Context) error {
			return replica.do(ctx, "CLUSTER", "REPLICATE", id).Err() // refused until it has met its master
		})
		if err != nil {
			return err
		}
	}
	return c.WaitUsable()
}

// WaitUsable waits until every running node serves and knows the slots of all nodes, as in Masters and Replicas.
func (c *Cluster) WaitUsable() error {
	return until("a cluster becoming usable", func(ctx context.Context) error {
		for i, node := range c.nodes() {
			if !node.running() {
				continue
			}
			if err := c.usable(ctx, node); err != nil {
				return fmt.Errorf("node %d: %w", i, err)
			}
		}
		return nil
	})
}

// usable returns what node still lacks.
func (c *Cluster) usable(ctx context.Context, node *Process) error {
	client := node.admin()
	defer client.Close()
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") ||
		!strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots)) {
		return errors.New("it says " + strings.ReplaceAll(info, "\r\n", " "))
	}
	ranges, err := slotsBy(ctx, client)
	if err != nil {
		return err
	}
	known := 0
	for _, r := range ranges {
		known += r.End - r.Start + 1
		i := c.master(r)
		if i < 0 {
			return fmt.Errorf("it says that slots %d to %d are at %s, which is not a master", r.Start, r.End,
				r.Nodes[0].Addr)
		}
		if i < len(c.Replicas) && c.Replicas[i].running() && len(r.Nodes) < 2 {
			return fmt.Errorf("it knows no replica of master %d", i)
		}
	}
	if known != slots {
		return fmt.Errorf("it knows %d of %d slots", known, slots)
	}
	if slices.Contains(c.Replicas, node) {
		return following(ctx, client)
	}
	return nil
}

// slotsBy calls CLUSTER SLOTS like a Cluster client.
func slotsBy(ctx context.Context, node *redis.Client) ([]redis.ClusterSlot, error) {
	cmd := redis.NewClusterSlotsCmd(ctx, "CLUSTER", "SLOTS")
	node.Process(ctx, cmd)
	return cmd.Result()
}

// following returns what a replica lacks to be up to date.
func following(ctx context.Context, client *redis.Client) error {
	info, err := client.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, "master_link_status:up") {
		err = errors.New("it says " + strings.ReplaceAll(info, "\r\n", " "))
	}
	return err
}

func (c *Cluster) nodes() []*Process { return slices.Concat(c.Masters, c.Replicas) }

// master returns the index of the master of a range of slots, or -1. It compares ids, since the port depends on TLS.
func (c *Cluster) master(r redis.ClusterSlot) int {
	return slices.Index(c.Masters, c.ids[r.Nodes[0].ID])
}

// id returns the node's id in the cluster.
func (p *Process) id() (string, error) {
	return p.do(context.Background(), "CLUSTER", "MYID").Text()
}

// Addrs returns the addresses of all nodes, the masters first.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.nodes() {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// Stop ends all nodes and removes their directories.
func (c *Cluster) Stop() { stopAll(c.nodes()) }

// Owner returns the index of the master of a slot.
func (c *Cluster) Owner(slot int) (int, error) {
	client := c.Masters[0].admin()
	defer client.Close()
	ranges, err := slotsBy(context.Background(), client)
	if err != nil {
		return 0, err
	}
	for _, r := range ranges {
		if i := c.master(r); i >= 0 && r.Start <= slot && slot <= r.End {
			return i, nil
		}
	}
	return 0, fmt.Errorf("slot %d is at none of the masters", slot)
}

// BeginMoveSlot leaves a slot half moved to the master of index to: keys are there, and others still at the old
// master. A client has to look for a key at both. MoveSlot ends the move.
func (c *Cluster) BeginMoveSlot(slot, to int, keys ...string) error {
	owner, err := c.Owner(slot)
	if err != nil {
		return err
	}
	ctx := context.Background()
	source, err := c.Masters[owner].id()
	if err != nil {
		return err
	}
	target, err := c.Masters[to].id()
	if err != nil {
		return err
	}
	err = c.Masters[to].do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", source).Err()
	if err == nil {
		err = c.Masters[owner].do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", target).Err()
	}
	if err == nil {
		err = c.migrate(owner, to, keys)
	}
	if err != nil {
		return fmt.Errorf("moving slot %d: %w", slot, err)
	}
	return nil
}

// migrate moves keys between masters, for any slot.
func (c *Cluster) migrate(from, to int, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	host, port, _ := net.SplitHostPort(c.Masters[to].Addr)
	words := []any{"MIGRATE", host, port, "", 0, startTimeout.Milliseconds(), "KEYS"}
	for _, key := range keys {
		words = append(words, key)
	}
	return c.Masters[from].do(context.Background(), words...).Err()
}

// MoveSlot moves a slot and its keys to the master of index to, like resharding, while the cluster serves. It
// returns when all masters know: if the slot moved on before that, two masters could claim it, and it could get
// lost between them.
func (c *Cluster) MoveSlot(slot, to int) error {
	owner, err := c.Owner(slot)
	if err != nil || owner == to {
		return err
	}
	if err := c.BeginMoveSlot(slot, to); err != nil {
		return err
	}
	ctx := context.Background()
	source := c.Masters[owner].admin()
	defer source.Close()
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		if err := c.migrate(owner, to, keys); err != nil {
			return fmt.Errorf("moving slot %d: %w", slot, err)
		}
	}
	id, err := c.Masters[to].id()
	if err != nil {
		return err
	}
	// First the new master, so that there is always one. The other nodes learn it only when it has the latest
	// epoch: otherwise an older message on its way could make them change their minds.
	order := append([]*Process{c.Masters[to], c.Masters[owner]}, c.Masters...)
	for i, node := range order {
		if i == 1 {
			if err := until("masters hearing that a slot has moved", c.agree); err != nil {
				return err
			}
		}
		if err := node.do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", id).Err(); err != nil {
			return fmt.Errorf("moving slot %d: %w", slot, err)
		}
	}
	return until("masters agreeing on which of them has which slots", c.agree)
}

// agree returns how the masters disagree about each other.
func (c *Cluster) agree(ctx context.Context) error {
	var first string
	for i, master := range c.Masters {
		nodes, err := master.do(ctx, "CLUSTER", "NODES").Text()
		if err != nil {
			return err
		}
		var known []string
		for line := range strings.Lines(nodes) {
			// Name, flags, epoch and slots; a moving slot is in brackets.
			if fields := strings.Fields(line); len(fields) > 8 {
				settled := slices.DeleteFunc(fields[8:], func(s string) bool { return strings.HasPrefix(s, "[") })
				known = append(known, fields[0]+" "+fields[6]+" "+strings.Join(settled, " "))
			}
		}
		slices.Sort(known)
		all := strings.Join(known, "\n")
		if i > 0 && all != first {
			return fmt.Errorf("one knows\n%s\nand another\n%s", first, all)
		}
		first = all
	}
	return nil
}

// Failover makes the replica of a master replace it, whether the master runs or was killed, and waits until all
// nodes know. The two then swap places in Masters and Replicas.
func (c *Cluster) Failover(master int) error {
	if master >= len(c.Replicas) {
		return errors.New("the cluster has no replicas")
	}
	words := []any{"CLUSTER", "FAILOVER"}
	if !c.Masters[master].running() {
		words = append(words, "FORCE") // the master cannot take part
	}
	replica := c.Replicas[master]
	if err := replica.do(context.Background(), words...).Err(); err != nil {
		return fmt.Errorf("failing over: %w", err)
	}
	c.Masters[master], c.Replicas[master] = replica, c.Masters[master]
	return c.WaitUsable()
}

// freeClusterAddr returns an address whose bus port is free, too.
func freeClusterAddr() (string, error) {
	for range 100 {
		addr, err := FreeAddr()
		if err != nil {
			return "", err
		}
		host, text, _ := net.SplitHostPort(addr)
		port, _ := strconv.Atoi(text)
		if listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port+busOffset))); err == nil {
			listener.Close()
			return addr, nil
		}
	}
	return "", errors.New("of 100 free ports none has another one free 10000 above it")
}
