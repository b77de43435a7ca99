package redisserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// cluster scans the keys of one slot, or of all for -1, and then again the slots that moved meanwhile, whose keys
// may have been missed. A master that fails does not end the scan of the others.
func (s *Scan[K]) cluster(ctx context.Context, slot int) error {
	before, err := s.Servers.slotMap(ctx)
	if err != nil {
		return err
	}
	if slot >= 0 && !before.isLarge(ctx, slot) {
		if err := s.slots(ctx, []int{slot}); !LacksRight(err) {
			return err
		}
	}
	for calm := 0; ; { // rounds in which no slot changed its master
		masters := before.masters
		if slot >= 0 && before.owner(slot) >= 0 && !before.isMoving(slot) {
			masters = masters[before.owner(slot):][:1]
		}
		if err := s.masters(ctx, masters); err != nil {
			return err
		}
		after, err := s.Servers.slotMap(ctx)
		if err != nil {
			return err
		}
		slots := before.missed(after)
		if slot >= 0 {
			slots = slices.DeleteFunc(slots, func(s int) bool { return s != slot })
		}
		if len(slots) == 0 {
			return nil
		}
		if err := s.slots(ctx, slots); !LacksRight(err) {
			return err
		}
		// Without the right to read single slots, it scans all keys again. A key that moved to another master in
		// one round stayed in place in the other round, as long as the slot itself kept its master.
		if slices.ContainsFunc(slots, func(s int) bool { return !before.keeps(s, after) }) {
			calm = 0
		} else if calm++; calm == 2 {
			return nil
		}
		before = after
	}
}

// largeSlot is the number of keys above which a slot is not read with one call, since other clients would have to
// wait for it.
const largeSlot = 20_000

// isLarge reports whether a resting slot has so many keys that it is better to scan all keys of its master in small
// steps.
func (m *slotMap) isLarge(ctx context.Context, slot int) bool {
	owner := m.owner(slot)
	if owner < 0 || m.isMoving(slot) {
		return false
	}
	count, err := m.masters[owner].ClusterCountKeysInSlot(ctx, slot).Result()
	return err == nil && count > largeSlot
}

const (
	// mostSlots is the most slots to read at a time. Their master must get no other slots meanwhile, so while many
	// move, fewer are read.
	mostSlots = 512
	// slotPause is the pause after a round that read no slot completely, and slotPatience the most such rounds in a
	// row.
	slotPause    = 10 * time.Millisecond
	slotPatience = 1000
)

// slots reads the keys of slots that move, or may have moved, until each slot was read completely.
func (s *Scan[K]) slots(ctx context.Context, slots []int) error {
	size := mostSlots
	for inVain := 0; len(slots) > 0; {
		left, err := s.slotsOnce(ctx, slots, size)
		if err != nil {
			return err
		}
		if len(left) < len(slots) {
			inVain, slots = 0, left
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

// ErrNoMaster is an error like the reply of a Cluster that is down.
var ErrNoMaster = errors.New("the cluster is down")

// slotsOnce reads the keys of slots, size of them at a time, and returns the slots that it may not have read
// completely.
func (s *Scan[K]) slotsOnce(ctx context.Context, slots []int, size int) (left []int, err error) {
	m, err := s.Servers.slotMap(ctx)
	if err != nil {
		return nil, err
	}
	resting := make([][]int, len(m.masters))
	var moving []int
	for _, slot := range slots {
		if owner := m.owner(slot); owner >= 0 && !m.isMoving(slot) {
			resting[owner] = append(resting[owner], slot)
		} else {
			moving = append(moving, slot)
		}
	}
	for i, master := range m.masters {
		for some := range slices.Chunk(resting[i], size) {
			rest, err := s.restingSlots(ctx, master, some)
			if err != nil {
				return nil, err
			}
			left = append(left, rest...)
		}
	}
	if len(moving) > 0 && m.lost != nil {
		return nil, m.lost
	}
	for some := range slices.Chunk(moving, max(1, size/32)) {
		rest, err := s.movingSlots(ctx, some)
		if err != nil {
			return nil, err
		}
		left = append(left, rest...)
	}
	return left, nil
}

// restingSlots reads the keys that a master has of slots, and returns the slots that it may not have read
// completely.
func (s *Scan[K]) restingSlots(ctx context.Context, master *redis.Client, slots []int) (left []int, err error) {
	before, after, err := s.readSlots(ctx, master, slots)
	for _, slot := range slots {
		if !stayed(slot, before, after) {
			left = append(left, slot)
		}
	}
	return left, err
}

// movingSlots reads the keys of slots that are moving, and returns the slots that it may not have read completely.
// It reads the source first: a key that is missing there has moved to the destination, which is read next.
func (s *Scan[K]) movingSlots(ctx context.Context, slots []int) (left []int, err error) {
	before, err := s.Servers.slotMap(ctx)
	if err != nil {
		return nil, err
	}
	bySource := map[int][]int{}
	for _, slot := range slots {
		owner := before.owner(slot)
		bySource[owner] = append(bySource[owner], slot)
	}
	for owner, some := range bySource {
		if owner < 0 {
			continue
		}
		masters := slices.Insert(slices.Delete(slices.Clone(before.masters), owner, owner+1), 0, before.masters[owner])
		for _, master := range masters {
			if _, _, err := s.readSlots(ctx, master, some); err != nil {
				return nil, err
			}
		}
	}
	after, err := s.Servers.slotMap(ctx)
	if err != nil {
		return nil, err
	}
	for _, slot := range slots {
		if before.owner(slot) < 0 || !before.keeps(slot, after) {
			left = append(left, slot)
		}
	}
	return left, errors.Join(before.lost, after.lost)
}

// readSlots reads the keys that a master has of slots, and returns its claims before and after.
func (s *Scan[K]) readSlots(ctx context.Context, master *redis.Client, slots []int) (before, after claim, err error) {
	storeKeys, before, after, err := keysIn(ctx, master, slots)
	if err == nil {
		if err = s.known(ctx, int64(len(storeKeys))); err == nil {
			err = s.Read(ctx, s.page(master, storeKeys, len(storeKeys)))
		}
	}
	if err != nil && !LacksRight(err) && ctx.Err() == nil {
		err = s.Servers.Incomplete(err, master)
	}
	return before, after, err
}

// keysPerExchange is the approximate number of keys in one exchange, since the size of its answers is bounded.
const keysPerExchange = 100_000

// keysIn returns the names of the keys that a master has of slots, and its claims before and after.
func keysIn(ctx context.Context, master *redis.Client, slots []int) (storeKeys []string, before, after claim, err error) {
	pipe := master.Pipeline()
	nodes := pipe.ClusterNodes(ctx)
	counts := make([]*redis.IntCmd, len(slots))
	for i, slot := range slots {
		counts[i] = pipe.ClusterCountKeysInSlot(ctx, slot)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, before, after, err
	}
	before = claimIn(nodes.Val())
	for again := make([]int, len(slots)); ; {
		var asked []int // indexes of slots
		pipe := master.Pipeline()
		var answers []*redis.StringSliceCmd
		keys, left := 0, false
		for i, slot := range slots {
			if most := int(counts[i].Val()); most > 0 && again[i] >= 0 {
				if left = keys >= keysPerExchange; left {
					break // for the next exchange
				}
				// More than there were, since new ones may have come.
				again[i] = max(2*again[i], most+most/8+16)
				keys += again[i]
				asked, answers = append(asked, i), append(answers, pipe.ClusterGetKeysInSlot(ctx, slot, again[i]))
			}
		}
		nodes := pipe.ClusterNodes(ctx)
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, before, after, err
		}
		full := false
		for n, i := range asked {
			storeKeys = append(storeKeys, answers[n].Val()...)
			if len(answers[n].Val()) < again[i] {
				again[i] = -1
			} else {
				full = true
			}
		}
		if !full && !left {
			return storeKeys, before, claimIn(nodes.Val()), nil
		}
	}
}
