package redisserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// cluster scans the keys of all masters, and then again the slots that moved meanwhile, whose keys may have been missed.
func (s *Scan[K]) cluster(ctx context.Context) error {
	before, err := s.Servers.slotMap(ctx)
	if err != nil {
		return err
	}
	if err := s.masters(ctx, before.masters); err != nil {
		return err
	}
	after, err := s.Servers.slotMap(ctx)
	if err != nil {
		return err
	}
	return s.slots(ctx, after, before.missed(after))
}

// slot scans the keys of one slot.
func (s *Scan[K]) slot(ctx context.Context, slot int) error {
	m, err := s.Servers.slotMap(ctx)
	if err != nil {
		return err
	}
	if m.isLarge(ctx, slot) {
		return s.cluster(ctx)
	}
	return s.slots(ctx, m, []int{slot})
}

// largeSlot is the number of keys above which a slot is not read with one call, since other clients would have to
// wait for it.
const largeSlot = 20_000

// isLarge reports whether a resting slot has so many keys that it is better to scan all keys in small steps.
func (m *slotMap) isLarge(ctx context.Context, slot int) bool {
	owner := m.owner(slot)
	if owner < 0 || m.isMoving(slot) {
		return false
	}
	count, err := m.masters[owner].ClusterCountKeysInSlot(ctx, slot).Result()
	return err == nil && count > largeSlot
}

const (
	// mostSlots is the most slots to read at a time. Their masters must get no other slots meanwhile, so while many
	// move, fewer are read.
	mostSlots = 512
	// slotPause is the pause after a round that read no slot completely, and slotPatience the most such rounds in a
	// row.
	slotPause    = 10 * time.Millisecond
	slotPatience = 1000
)

// ErrNoMaster is an error like the reply of a Cluster that is down.
var ErrNoMaster = errors.New("the cluster is down")

// slots reads the keys of slots that move, or may have moved, until each slot was read completely. m says where they
// are.
func (s *Scan[K]) slots(ctx context.Context, m *slotMap, slots []int) error {
	for size, inVain := mostSlots, 0; len(slots) > 0; {
		some := slots[:min(size, len(slots))]
		after, left, err := s.slotsOnce(ctx, m, some)
		if err != nil {
			return err
		}
		m, slots = after, append(slots[len(some):len(slots):len(slots)], left...)
		if len(left) < len(some) {
			inVain = 0
			continue
		}
		size = max(1, size/4)
		if inVain++; inVain == slotPatience {
			return fmt.Errorf("slot %d has no master, or does not stay with any: %w", left[0], ErrNoMaster)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(slotPause):
		}
	}
	return nil
}

// slotsOnce reads the keys of slots, and returns where these are afterwards, and those that it may not have read
// completely. It reads the owners first: a key of a moving slot that is missing there has moved to another master, which
// is read next.
func (s *Scan[K]) slotsOnce(ctx context.Context, before *slotMap, slots []int) (after *slotMap, left []int, err error) {
	moving := slices.ContainsFunc(slots, func(slot int) bool { return before.owner(slot) < 0 || before.isMoving(slot) })
	if moving && before.lost != nil {
		return nil, nil, before.lost
	}
	for _, ofOwners := range []bool{true, false} {
		for i, master := range before.masters {
			wanted := slices.DeleteFunc(slices.Clone(slots), func(slot int) bool {
				owner := before.owner(slot)
				return owner < 0 || (owner == i) != ofOwners || !ofOwners && !before.isMoving(slot)
			})
			if err := s.readSlots(ctx, master, wanted); err != nil {
				return nil, nil, err
			}
		}
	}
	if after, err = s.Servers.slotMap(ctx); err != nil {
		return nil, nil, err
	}
	for _, slot := range slots {
		if before.owner(slot) < 0 || !before.keeps(slot, after) || after.isMoving(slot) && !before.isMoving(slot) {
			left = append(left, slot)
		}
	}
	if moving {
		err = after.lost
	}
	return after, left, err
}

// readSlots reads the keys that a master has of slots.
func (s *Scan[K]) readSlots(ctx context.Context, master *redis.Client, slots []int) error {
	storeKeys, err := keysIn(ctx, master, slots)
	if err == nil {
		if err = s.Known(ctx, int64(len(storeKeys))); err == nil {
			err = s.Read(ctx, s.page(master, storeKeys, len(storeKeys)))
		}
	}
	if err != nil && ctx.Err() == nil {
		err = s.Servers.Incomplete(err, master)
	}
	return err
}

// keysPerExchange is the approximate number of keys in one exchange, since the size of its answers is bounded.
const keysPerExchange = 100_000

// keysIn returns the names of the keys that a master has of slots.
func keysIn(ctx context.Context, master *redis.Client, slots []int) (storeKeys []string, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	pipe := master.Pipeline()
	counts := make([]*redis.IntCmd, len(slots))
	for i, slot := range slots {
		counts[i] = pipe.ClusterCountKeysInSlot(ctx, slot)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	type part struct{ slot, most int }
	var parts []part
	for i, slot := range slots {
		if n := int(counts[i].Val()); n > 0 {
			parts = append(parts, part{slot, n + n/8 + 16}) // more than there were, since new ones may have come
		}
	}
	for len(parts) > 0 {
		var answers []*redis.StringSliceCmd
		for keys := 0; len(answers) < len(parts) && keys < keysPerExchange; {
			p := parts[len(answers)]
			keys += p.most
			answers = append(answers, pipe.ClusterGetKeysInSlot(ctx, p.slot, p.most))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
		next := slices.Clone(parts[len(answers):])
		for i, answer := range answers {
			storeKeys = append(storeKeys, answer.Val()...)
			if p := parts[i]; len(answer.Val()) >= p.most { // there are more by now
				next = append(next, part{p.slot, 2 * p.most})
			}
		}
		parts = next
	}
	return storeKeys, nil
}
