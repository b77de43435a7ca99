package redisserver

import (
	"slices"
	"strconv"
	"strings"
)

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
