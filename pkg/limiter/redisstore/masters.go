package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/clusternodes"
	"github.com/limitctl/limitctl/internal/panics"
)

// MostMasters is how many masters of a Cluster are asked: as many as Redis says that one
// should have at most.
const MostMasters = 1000

// layout is who has which slots of a Cluster, as the masters themselves say.
type layout struct {
	masters []*redis.Client
	claims  []claim // of each master
	lost    error   // names the masters that did not answer
}

// claim is what a master says of itself. A slot that comes to it, also one that
// comes back, makes its epoch a newer one.
type claim struct {
	epoch uint64
	slots *[slotCount]byte // owned, moving or both; nil if it did not answer
}

const (
	owned  = 1 // it serves the slot
	moving = 2 // the slot's keys are on their way to or from another master
)

// layout asks every master.
func (s *Store) layout(ctx context.Context) (*layout, error) {
	cluster := s.client.(*redis.ClusterClient)
	l := &layout{}
	var mu sync.Mutex
	var named atomic.Int64
	failed := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) (err error) {
		defer panics.Catch(&err) // it is the client's goroutine
		if named.Add(1) > MostMasters {
			return nil
		}
		nodes, err := master.ClusterNodes(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		at, _ := slices.BinarySearchFunc(l.masters, master, byAddress)
		l.masters, l.claims = slices.Insert(l.masters, at, master), slices.Insert(l.claims, at, claimIn(nodes))
		if err != nil {
			l.lost = errors.Join(l.lost, s.incomplete(err, master))
		}
		return err
	})
	if named.Load() > MostMasters {
		return nil, &answerError{fmt.Sprintf("it names %d masters of the Cluster, and one has at most %d", named.Load(), MostMasters)}
	}
	var panicked *panics.Error
	if len(l.masters) == 0 && failed == nil {
		return nil, &answerError{"it names no masters of the Cluster"}
	}
	if len(l.masters) == 0 || isServerError(failed, "") || errors.As(failed, &panicked) {
		return nil, failed
	}
	return l, nil
}

func byAddress(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) }

// incomplete says which master it is whose failure leaves a scan incomplete.
func (s *Store) incomplete(err error, master *redis.Client) error {
	return fmt.Errorf("%w (so the keys of the master %s are not all there)", s.translate(err, "scan", false, nil), s.Redact(master.Options().Addr))
}

// claimIn reads what a master says about itself in CLUSTER NODES.
func claimIn(nodes string) claim {
	c := claim{}
	for _, node := range clusternodes.Parse(nodes) {
		if !node.Is("myself") {
			continue
		}
		c.epoch, c.slots = node.Epoch, new([slotCount]byte)
		for _, slots := range node.Slots {
			for slot := slots.First; slot <= min(slots.Last, slotCount-1); slot++ {
				c.slots[slot] |= owned
			}
		}
		for _, slot := range node.Moving {
			if slot < slotCount {
				c.slots[slot] |= moving
			}
		}
	}
	return c
}

func (c claim) says(slot int, what byte) bool { return c.slots != nil && c.slots[slot]&what != 0 }

// stayed reports whether a slot was at a master all the time between two claims of
// it, and whole.
func stayed(slot int, before, after claim) bool {
	return before.epoch == after.epoch && before.slots != nil && before.slots[slot] == owned && after.slots != nil && after.slots[slot] == owned
}

// owner returns the index of the master that has a slot, -1 if none has. While one
// takes it over, two say so, and the newer one is right.
func (l *layout) owner(slot int) int {
	owner := -1
	for i, claim := range l.claims {
		if claim.says(slot, owned) && (owner < 0 || claim.epoch > l.claims[owner].epoch) {
			owner = i
		}
	}
	return owner
}

// keeps reports whether a slot's keys went at most from the master that has it to
// another between l and after, and none came back.
func (l *layout) keeps(slot int, after *layout) bool {
	i, j := l.owner(slot), after.owner(slot)
	if i < 0 || j < 0 {
		return i == j
	}
	return l.masters[i] == after.masters[j] && l.claims[i].epoch == after.claims[j].epoch
}

// isMoving reports whether a master says that a slot's keys are on their way.
func (l *layout) isMoving(slot int) bool {
	return slices.ContainsFunc(l.claims, func(c claim) bool { return c.says(slot, moving) })
}

// unsettled returns the slots of which keys may have been missed by who looked at
// all masters between l and after: the keys were on their way, or can have been.
func (l *layout) unsettled(after *layout) []int {
	var slots []int
	for slot := range slotCount {
		if !l.keeps(slot, after) || l.isMoving(slot) || after.isMoving(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}
