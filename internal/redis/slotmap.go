package redisserver

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// slotMap says which master of a Cluster has which slots, according to the masters themselves.
type slotMap struct {
	masters []*redis.Client
	claims  []claim // of each master
	lost    error   // names the masters that did not answer
}

// claim is what a master says about itself. Whenever it gets a slot, even one that it had before, its epoch
// increases.
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

// keeps reports whether between m and after the keys of a slot only moved away from its master, and none moved
// back.
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

// HashTag returns the part of a store key that decides its slot in a Cluster: what is between the first brace and the one that
// ends it, if that is something, else all of it.
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
