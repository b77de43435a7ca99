package redisserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// cluster scans the keys of all masters, and then again the slots that moved meanwhile, whose keys may have been
// missed.
func (s *Scan) cluster(ctx context.Context) error {
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

// slot scans the keys of one slot, which are few. A slot with many is scanned with all others in small steps.
func (s *Scan) slot(ctx context.Context, slot int) error {
	m, err := s.Servers.slotMap(ctx)
	if err != nil {
		return err
	}
	if owner := m.owner(slot); owner >= 0 && !m.isMoving(slot) {
		names, err := m.masters[owner].ClusterGetKeysInSlot(ctx, slot, largeSlot).Result()
		if err == nil && len(names) == largeSlot {
			return s.cluster(ctx)
		}
	}
	return s.slots(ctx, m, []int{slot})
}

// largeSlot is the number of keys from which a slot is not read with one call, since other clients would have to
// wait for it.
const largeSlot = 20_000

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
func (s *Scan) slots(ctx context.Context, m *slotMap, slots []int) error {
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
// completely. It reads the owners first: a key of a moving slot that is missing there has moved to another master,
// which is read next.
func (s *Scan) slotsOnce(ctx context.Context, before *slotMap, slots []int) (after *slotMap, left []int, err error) {
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
func (s *Scan) readSlots(ctx context.Context, master *redis.Client, slots []int) error {
	storeKeys, err := keysIn(ctx, master, slots)
	if err == nil {
		if err = s.Known(ctx, int64(len(storeKeys))); err == nil {
			err = s.Read(ctx, Page{master, storeKeys, len(storeKeys)})
		}
	}
	if err != nil && ctx.Err() == nil {
		err = s.Servers.Incomplete(err, master)
	}
	return err
}

// keysPerExchange is the most keys in one exchange, since the size of its answers is bounded.
const keysPerExchange = 100_000

// keysIn returns the names of the keys that a master has of slots. If the answer for a slot is full, that slot is read
// again with more room.
func keysIn(ctx context.Context, master *redis.Client, slots []int) (storeKeys []string, err error) {
	for room := keysPerExchange / mostSlots; len(slots) > 0; room *= 4 {
		var full []int
		for some := range slices.Chunk(slots, max(1, keysPerExchange/room)) {
			pipe := master.Pipeline()
			answers := make([]*redis.StringSliceCmd, len(some))
			for i, slot := range some {
				answers[i] = pipe.ClusterGetKeysInSlot(ctx, slot, room)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return nil, err
			}
			for i, answer := range answers {
				if len(answer.Val()) >= room {
					full = append(full, some[i])
				} else {
					storeKeys = append(storeKeys, answer.Val()...)
				}
			}
		}
		slots = full
	}
	return storeKeys, nil
}

// slotMap says which master of a Cluster has which slots, according to the masters themselves.
type slotMap struct {
	masters []*redis.Client
	claims  []claim // of each master
	lost    error   // names the masters that did not answer
}

// claim is what a master says about itself. Whenever it gets a slot, even one that it had before, its epoch increases.
type claim struct {
	epoch uint64
	slots *[SlotCount]byte // owned, moving or both; nil if it did not answer
}

const (
	owned  = 1 // it serves the slot
	moving = 2 // the slot's keys are moving to or from another master
)

// slotMap gets the claims of all masters.
func (s *Servers) slotMap(ctx context.Context) (*slotMap, error) {
	m := &slotMap{}
	var mu sync.Mutex
	failed := s.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		nodes, err := master.ClusterNodes(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		at, _ := slices.BinarySearchFunc(m.masters, master, byAddress)
		m.masters, m.claims = slices.Insert(m.masters, at, master), slices.Insert(m.claims, at, claimIn(nodes))
		if IsErrorReply(err, "") || isPanic(err) {
			return err
		}
		if err != nil {
			m.lost = errors.Join(m.lost, s.Incomplete(err, master))
		}
		return nil
	})
	if failed != nil {
		return nil, failed
	}
	return m, nil
}

// Incomplete returns an error that names the master whose failure makes a scan incomplete.
func (s *Servers) Incomplete(err error, master *redis.Client) error {
	address := master.Options().Addr
	return &admin.IncompleteError{Shard: s.Redact(address), Err: s.ExplainCall(err, Call{Address: address})}
}

// claimIn parses a master's own line in CLUSTER NODES.
func claimIn(nodes string) claim {
	c := claim{}
	for _, node := range ParseNodes(nodes) {
		if !node.Is("myself") {
			continue
		}
		c.epoch, c.slots = node.Epoch, new([SlotCount]byte)
		for _, slots := range node.Slots {
			for slot := slots.First; slot <= min(slots.Last, SlotCount-1); slot++ {
				c.slots[slot] |= owned
			}
		}
		for _, slot := range node.Moving {
			if slot < SlotCount {
				c.slots[slot] |= moving
			}
		}
	}
	return c
}

func (c claim) says(slot int, what byte) bool { return c.slots != nil && c.slots[slot]&what != 0 }

// owner returns the index of the master of a slot, -1 if there is none. During a takeover two masters claim it, and
// the newer claim is right.
func (m *slotMap) owner(slot int) int {
	owner := -1
	for i, claim := range m.claims {
		if claim.says(slot, owned) && (owner < 0 || claim.epoch > m.claims[owner].epoch) {
			owner = i
		}
	}
	return owner
}

// keeps reports whether between m and after the keys of a slot only moved away from its master, and none moved back.
func (m *slotMap) keeps(slot int, after *slotMap) bool {
	i, j := m.owner(slot), after.owner(slot)
	if i < 0 || j < 0 {
		return i == j
	}
	return m.masters[i] == after.masters[j] && m.claims[i].epoch == after.claims[j].epoch
}

// isMoving reports whether a master says that a slot is moving.
func (m *slotMap) isMoving(slot int) bool {
	return slices.ContainsFunc(m.claims, func(c claim) bool { return c.says(slot, moving) })
}

// missed returns the slots of which a scan of all masters between m and after may have missed keys, because they
// were or may have been moving.
func (m *slotMap) missed(after *slotMap) []int {
	var slots []int
	for slot := range SlotCount {
		if !m.keeps(slot, after) || m.isMoving(slot) || after.isMoving(slot) {
			slots = append(slots, slot)
		}
	}
	return slots
}

// SlotCount is the number of slots of a Redis Cluster.
const SlotCount = 16384

// HashTag returns the part of a store key that decides its slot in a Cluster: what is between the first brace and the
// one that ends it, if that is something, else all of it.
func HashTag(storeKey string) string {
	_, rest, opened := strings.Cut(storeKey, "{")
	if tag, _, closed := strings.Cut(rest, "}"); opened && closed && tag != "" {
		return tag
	}
	return storeKey
}

// SlotOf returns the slot of keys with a hash tag: the CRC-16 of the tag (the XMODEM variant, from the Redis
// Cluster specification), modulo [SlotCount].
func SlotOf(tag string) int {
	crc := uint16(0)
	for _, c := range []byte(tag) {
		crc ^= uint16(c) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % SlotCount
}

// Node is a node of a Redis Cluster, as some node describes it, perhaps itself.
type Node struct {
	Address string // host:port
	Flags   []string
	Epoch   uint64  // of its configuration
	Slots   []Range // that it serves
	Moving  []int   // slots whose keys are moving to or from it
}

// Range is a range of slots, including both ends.
type Range struct{ First, Last int }

// Is reports whether the node has a flag, such as "myself", "master" or "fail".
func (n *Node) Is(flag string) bool { return slices.Contains(n.Flags, flag) }

// SlotCount returns the number of slots of the node.
func (n *Node) SlotCount() int {
	count := 0
	for _, slots := range n.Slots {
		count += slots.Last - slots.First + 1
	}
	return count
}

// ParseNodes reads CLUSTER NODES, a line for each node: id, address, flags, master, times of ping and pong, epoch and
// state of the link, and then the slots ("5", "0-5460", "[93->-id]", "[77-<-id]"). It ignores what it does not
// understand.
func ParseNodes(text string) []Node {
	var nodes []Node
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		n := Node{Flags: strings.Split(fields[2], ",")}
		n.Address, _, _ = strings.Cut(fields[1], "@")
		n.Epoch, _ = strconv.ParseUint(fields[6], 10, 64)
		for _, field := range fields[8:] {
			if moving, is := strings.CutPrefix(field, "["); is {
				number, _, _ := strings.Cut(moving, "-")
				if slot, err := strconv.Atoi(number); err == nil {
					n.Moving = append(n.Moving, slot)
				}
				continue
			}
			first, last, isRange := strings.Cut(field, "-")
			if !isRange {
				last = first
			}
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 == nil && err2 == nil {
				n.Slots = append(n.Slots, Range{from, to})
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}
