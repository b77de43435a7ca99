package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
)

// scanCluster goes through the keys of one slot, or of all for -1, and then once
// more through the slots that moved meanwhile, whose keys may have been missed. A
// master that fails does not end the scan of the others.
func (sc *scan) scanCluster(ctx context.Context, slot int) error {
	before, err := sc.layout(ctx)
	if err != nil {
		return err
	}
	if slot >= 0 && !sc.isLarge(ctx, before, slot) {
		if err := sc.settle(ctx, []int{slot}); !isServerError(err, "NOPERM") {
			return err
		}
	}
	for calm := 0; ; { // rounds in which no slot changed hands
		masters := before.masters
		if slot >= 0 && before.owner(slot) >= 0 && !before.isMoving(slot) {
			masters = masters[before.owner(slot):][:1]
		}
		if err := sc.scanMasters(ctx, masters); err != nil {
			return err
		}
		after, err := sc.layout(ctx)
		if err != nil {
			return err
		}
		slots := before.unsettled(after)
		if slot >= 0 {
			slots = slices.DeleteFunc(slots, func(s int) bool { return s != slot })
		}
		if len(slots) == 0 {
			return nil
		}
		if err := sc.settle(ctx, slots); !isServerError(err, "NOPERM") {
			return err
		}
		// Without the right to look at single slots all is looked at again. A key
		// that went from one master to another in one round was in the same place
		// all through the other, as long as the slot itself did not change hands.
		if slices.ContainsFunc(slots, func(s int) bool { return !before.keeps(s, after) }) {
			calm = 0
		} else if calm++; calm == 2 {
			return nil
		}
		before = after
	}
}

// largeSlot is how many keys of a slot are too many to ask for in one go, which others
// would have to wait for.
const largeSlot = 20_000

// isLarge reports whether a slot at rest has so many keys that they are better looked
// for among all of its master's, a few at a time.
func (sc *scan) isLarge(ctx context.Context, l *layout, slot int) bool {
	owner := l.owner(slot)
	if owner < 0 || l.isMoving(slot) {
		return false
	}
	count, err := l.masters[owner].ClusterCountKeysInSlot(ctx, slot).Result()
	return err == nil && count > largeSlot
}

// scanMasters goes through masters at once.
func (sc *scan) scanMasters(ctx context.Context, masters []*redis.Client) error {
	var scanning panics.Group
	errs := make([]error, len(masters))
	for i, master := range masters {
		scanning.Go(func() {
			if err := sc.scanServer(ctx, master); err != nil {
				errs[i] = sc.incomplete(err, master)
			}
		})
	}
	errs = append(errs, scanning.Wait())
	return errors.Join(errs...)
}

const (
	// settledTogether is how many slots are looked at in one go. Nothing may come
	// to their master meanwhile, so while much moves fewer are tried.
	settledTogether = 512
	// settlePause is how long to wait where looking led to nothing, and
	// settlePatience how often in a row.
	settlePause    = 10 * time.Millisecond
	settlePatience = 1000
)

// settle goes through the keys of slots that move, or may have moved, until each
// slot was seen whole.
func (sc *scan) settle(ctx context.Context, slots []int) error {
	together := settledTogether
	for vain := 0; len(slots) > 0; {
		l, err := sc.layout(ctx)
		if err != nil {
			return err
		}
		resting := make([][]int, len(l.masters))
		var moving, left []int
		for _, slot := range slots {
			if owner := l.owner(slot); owner >= 0 && !l.isMoving(slot) {
				resting[owner] = append(resting[owner], slot)
			} else {
				moving = append(moving, slot)
			}
		}
		for i, master := range l.masters {
			for some := range slices.Chunk(resting[i], together) {
				rest, err := sc.lookAt(ctx, master, some)
				if err != nil {
					return err
				}
				left = append(left, rest...)
			}
		}
		if len(moving) > 0 && l.lost != nil {
			return l.lost
		}
		for some := range slices.Chunk(moving, max(1, together/32)) {
			rest, err := sc.follow(ctx, some)
			if err != nil {
				return err
			}
			left = append(left, rest...)
		}
		if len(left) < len(slots) {
			vain, slots = 0, left
			continue
		}
		together = max(1, together/4)
		if vain++; vain == settlePatience {
			return fmt.Errorf("slot %d has no master, or does not stay with any: %w", left[0], errNoMaster)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePause):
		}
	}
	return nil
}

// errNoMaster is an answer like those of a Cluster that is down.
var errNoMaster = errors.New("the cluster is down")

// lookAt goes through the keys that a master has of slots, and returns the slots of
// which that may not have been all.
func (sc *scan) lookAt(ctx context.Context, master *redis.Client, slots []int) (left []int, err error) {
	before, after, err := sc.readSlots(ctx, master, slots)
	for _, slot := range slots {
		if !stayed(slot, before, after) {
			left = append(left, slot)
		}
	}
	return left, err
}

// follow goes through the keys of slots that are on their way, and returns the slots
// of which that may not have been all. A key that is no more where a slot comes from
// is where it goes to, and found when that is looked at next.
func (sc *scan) follow(ctx context.Context, slots []int) (left []int, err error) {
	before, err := sc.layout(ctx)
	if err != nil {
		return nil, err
	}
	from := map[int][]int{}
	for _, slot := range slots {
		owner := before.owner(slot)
		from[owner] = append(from[owner], slot)
	}
	for owner, some := range from {
		if owner < 0 {
			continue
		}
		masters := slices.Insert(slices.Delete(slices.Clone(before.masters), owner, owner+1), 0, before.masters[owner])
		for _, master := range masters {
			if _, _, err := sc.readSlots(ctx, master, some); err != nil {
				return nil, err
			}
		}
	}
	after, err := sc.layout(ctx)
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

// readSlots reads the keys that a master has of slots, and returns what it said of
// itself before and after it was asked which these are.
func (sc *scan) readSlots(ctx context.Context, master *redis.Client, slots []int) (before, after claim, err error) {
	storeKeys, before, after, err := sc.keysIn(ctx, master, slots)
	if err == nil {
		looked := int64(len(storeKeys))
		if err = sc.send(ctx, page{total: looked}); err == nil {
			err = sc.readAndSend(ctx, master, sc.selected(storeKeys, len(storeKeys)))
		}
	}
	if err != nil && !isServerError(err, "NOPERM") && ctx.Err() == nil {
		err = sc.incomplete(err, master)
	}
	return before, after, err
}

// keysPerExchange is about how many keys of slots are asked for in one exchange, whose
// answers are bounded.
const keysPerExchange = 100_000

// keysIn asks a master which keys it has of slots.
func (sc *scan) keysIn(ctx context.Context, master *redis.Client, slots []int) (storeKeys []string, before, after claim, err error) {
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
	total := 0
	for _, count := range counts {
		total += int(count.Val())
	}
	if err := sc.pace.wait(ctx, total); err != nil {
		return nil, before, after, err
	}
	for again := make([]int, len(slots)); ; {
		var asked []int // indexes of slots
		pipe := master.Pipeline()
		var answers []*redis.StringSliceCmd
		keys, left := 0, false
		for i, slot := range slots {
			if most := int(counts[i].Val()); most > 0 && again[i] >= 0 {
				if left = keys >= keysPerExchange; left {
					break // the next exchange asks for them
				}
				// More than there were, lest new ones come in place of old ones.
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
