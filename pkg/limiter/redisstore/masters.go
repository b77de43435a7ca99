package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// layout is who has which slots of a Cluster, as the masters themselves say.
type layout struct {
	masters []*redis.Client
	owner   [slotCount]*redis.Client // nil for a slot nobody serves
	moving  [slotCount]bool          // its keys are on their way to another master
}

// layout asks every master that can be reached.
func (s *Store) layout(ctx context.Context) (*layout, error) {
	cluster := s.client.(*redis.ClusterClient)
	cluster.ReloadState(ctx)
	l := &layout{}
	var mu sync.Mutex
	failed := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		nodes, err := master.ClusterNodes(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		l.masters = append(l.masters, master)
		if err == nil {
			l.add(master, nodes)
		}
		return err
	})
	slices.SortFunc(l.masters, func(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) })
	if len(l.masters) == 0 || isServerError(failed, "") {
		return nil, failed
	}
	return l, nil
}

// add reads a master's line of CLUSTER NODES about itself: eight fields, then its
// slots ("5", "0-5460") and those that move ("[93->-id]", "[77-<-id]").
func (l *layout) add(master *redis.Client, nodes string) {
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[2], "myself") {
			continue
		}
		for _, field := range fields[8:] {
			if moving, is := strings.CutPrefix(field, "["); is {
				number, _, _ := strings.Cut(moving, "-")
				if slot, err := strconv.Atoi(number); err == nil && slot < slotCount {
					l.moving[slot] = true
				}
				continue
			}
			first, last, isRange := strings.Cut(field, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			for slot := from; err1 == nil && err2 == nil && slot <= min(to, slotCount-1); slot++ {
				l.owner[slot] = master
			}
		}
	}
}

// scanCluster goes through the keys of one slot, or of all for -1, and then once
// more through the slots that moved meanwhile, whose keys may have been missed. A
// master that fails does not end the scan of the others.
func (sc *scan) scanCluster(ctx context.Context, slot int) error {
	before, err := sc.layout(ctx)
	if err != nil {
		return err
	}
	if slot >= 0 {
		if before.owner[slot] == nil {
			return fmt.Errorf("slot %d has no master: %w", slot, errNoMaster)
		}
		err = sc.scanSlot(ctx, before.owner[slot], slot)
	} else {
		err = sc.scanMasters(ctx, before.masters)
	}
	if err != nil {
		return err
	}
	after, err := sc.layout(ctx)
	if err != nil {
		return err
	}
	for unsettled := range slotCount {
		same := before.owner[unsettled] == after.owner[unsettled] && !before.moving[unsettled] && !after.moving[unsettled]
		if same || slot >= 0 && unsettled != slot {
			continue
		}
		// Twice round all masters: a key that moves on between two looks is seen
		// before or after, whichever way it goes.
		for range 2 {
			for _, master := range after.masters {
				if err := sc.scanSlot(ctx, master, unsettled); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// errNoMaster is an answer like those of a Cluster that is down.
var errNoMaster = errors.New("the cluster is down")

// scanMasters goes through all masters at once.
func (sc *scan) scanMasters(ctx context.Context, masters []*redis.Client) error {
	var scanning sync.WaitGroup
	errs := make([]error, len(masters))
	for i, master := range masters {
		scanning.Go(func() {
			if err := sc.scanServer(ctx, master); err != nil {
				errs[i] = fmt.Errorf("%w (so the keys of the master %s are not all there)",
					sc.translate(err, "scan", false, nil), master.Options().Addr)
			}
		})
	}
	scanning.Wait()
	return errors.Join(errs...)
}

// scanSlot goes through the keys that one master has of a slot, at one instant.
func (sc *scan) scanSlot(ctx context.Context, master *redis.Client, slot int) error {
	count, err := master.ClusterCountKeysInSlot(ctx, slot).Result()
	if isServerError(err, "NOPERM") {
		return sc.scanServer(ctx, master)
	}
	if err != nil || count == 0 {
		return err
	}
	if err := sc.pace.wait(ctx, int(count)); err != nil {
		return err
	}
	storeKeys, err := master.ClusterGetKeysInSlot(ctx, slot, int(count)).Result()
	if err != nil {
		return err
	}
	if err := sc.send(ctx, page{total: count}); err != nil {
		return err
	}
	return sc.readAndSend(ctx, master, storeKeys, count)
}
