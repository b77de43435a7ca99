package trace

import "sort"

// inOrder sorts requests by their instants, and keeps the order of equal ones. A log is mostly in order, or
// consists of several logs one after the other, so it merges the ordered runs that it finds.
func inOrder(requests []Request) []Request {
	ends := runs(requests)
	var room []Request
	for len(ends) > 1 {
		merged := ends[:0]
		begin := 0
		for i := 0; i < len(ends); i += 2 {
			middle, end := ends[i], ends[min(i+1, len(ends)-1)]
			room = merge(requests[begin:end], middle-begin, room)
			merged = append(merged, end)
			begin = end
		}
		ends = merged
	}
	return requests
}

// runs returns the end of each run of ordered requests.
func runs(requests []Request) []int {
	var ends []int
	for i := 1; i < len(requests); i++ {
		if requests[i].At < requests[i-1].At {
			ends = append(ends, i)
		}
	}
	return append(ends, len(requests))
}

// merge merges two runs in place; the second begins at middle. It does not touch what is already in order, which is
// nearly all if lines are only a little late. It moves the rest of the first run to room, and returns room for
// reuse.
func merge(requests []Request, middle int, room []Request) []Request {
	if middle == len(requests) {
		return room
	}
	earliest, latest := requests[middle].At, requests[middle-1].At
	begin := sort.Search(middle, func(i int) bool { return requests[i].At > earliest })
	end := middle + sort.Search(len(requests)-middle, func(i int) bool { return requests[middle+i].At >= latest })
	room = append(room[:0], requests[begin:middle]...)
	first, second, into := room, requests[middle:end], requests[begin:end]
	for i := 0; len(first) > 0; i++ {
		if len(second) == 0 {
			copy(into[i:], first)
			break
		}
		if first[0].At <= second[0].At {
			into[i], first = first[0], first[1:]
		} else {
			into[i], second = second[0], second[1:]
		}
	}
	return room
}
