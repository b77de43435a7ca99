package rls

// AppendRequest appends a RateLimitRequest.
func AppendRequest(to []byte, r *Request) []byte {
	to = appendText(to, 1, r.Domain)
	for i := range r.Descriptors {
		var start int
		to, start = begin(to, 2)
		to = end(r.Descriptors[i].append(to), start)
	}
	return appendVarint(to, 3, uint64(r.Hits))
}

func (d *Descriptor) append(to []byte) []byte {
	var start int
	for i := range d.Entries {
		to, start = begin(to, 1)
		to = end(appendText(appendText(to, 1, d.Entries[i].Key), 2, d.Entries[i].Value), start)
	}
	if d.HasLimit {
		to, start = begin(to, 2)
		to = appendVarint(to, 1, uint64(d.Limit.RequestsPerUnit))
		to = appendVarint(to, 2, uint64(d.Limit.Unit))
		if d.Limit.Multiplier > 0 {
			var wrapped int
			to, wrapped = begin(to, 3)
			to = end(appendVarint(to, 1, uint64(d.Limit.Multiplier)), wrapped)
		}
		to = end(to, start)
	}
	if d.HasHits {
		to, start = begin(to, 3)
		to = end(appendVarint(to, 1, d.Hits), start) // 0 is an empty message
	}
	if d.Negative {
		to = appendVarint(to, 4, 1)
	}
	return to
}
