package trace

// inOrder sorts requests by their instants, and keeps the order of equal ones. A log is
// mostly in order, or consists of several logs one after the other, so this merges the
// ordered runs that it finds.
func inOrder(requests []Request) []Request {
	ends := runs(requests)
	other := make([]Request, len(requests))
	for len(ends) > 1 {
		merged := ends[:0]
		begin := 0
		for i := 0; i < len(ends); i += 2 {
			middle, end := ends[i], ends[min(i+1, len(ends)-1)]
			merge(other[begin:end], requests[begin:middle], requests[middle:end])
			merged = append(merged, end)
			begin = end
		}
		ends, requests, other = merged, other, requests
	}
	return requests
}

// runs returns where each run of ordered requests ends.
func runs(requests []Request) []int {
	var ends []int
	for i := 1; i < len(requests); i++ {
		if requests[i].At < requests[i-1].At {
			ends = append(ends, i)
		}
	}
	return append(ends, len(requests))
}

// merge merges two runs, the first of which was before the second.
func merge(into, first, second []Request) {
	for i := range into {
		if len(first) > 0 && (len(second) == 0 || first[0].At <= second[0].At) {
			into[i], first = first[0], first[1:]
		} else {
			into[i], second = second[0], second[1:]
		}
	}
}
