package dash

import (
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// reunite makes one row of two that are of the same limit of another limiter: one whose store
// key is gone, and one that was found under another store key since then, as where these have the
// number of a window. The newer one goes on with the history, the mark and the cursor.
func (m *model) reunite() {
	var gone []*row
	for id, r := range m.feed.rows {
		if id.StoreKey != "" && !r.inUse && !r.updated.IsZero() && !r.stale {
			gone = append(gone, r)
		}
	}
	if len(gone) == 0 {
		return
	}
	heirs := map[store.Key][]*row{}
	for id, r := range m.feed.rows {
		if id.StoreKey != "" && r.inUse {
			heirs[id.Key] = append(heirs[id.Key], r)
		}
	}
	for _, r := range gone {
		var heir *row
		several := false
		for _, other := range heirs[r.Key] {
			if !other.followedSince.Before(r.usedAt) { // else they were there together, and are two
				several, heir = heir != nil, other
			}
		}
		if heir != nil && !several {
			m.inherit(heir, r)
		}
	}
}

func (m *model) inherit(heir, r *row) {
	shares, taken := r.shares, r.taken
	if last := heir.shares.last; heir.shares.values != nil {
		for second := last - int64(len(heir.shares.values)) + 1; second <= last; second++ {
			shares.add(time.Unix(second, 0), heir.shares.at(second))
		}
	}
	if last := heir.taken.last; heir.taken.values != nil {
		for second := last - int64(len(heir.taken.values)) + 1; second <= last; second++ {
			if value := heir.taken.at(second); !math.IsNaN(float64(value)) {
				taken.add(time.Unix(second, 0), value)
			}
		}
	}
	heir.shares, heir.taken, heir.followedSince = shares, taken, r.followedSince
	from, to := r.id(), heir.id()
	delete(m.feed.rows, from)
	if m.keys.marked[from] {
		delete(m.keys.marked, from)
		m.keys.marked[to] = true
	}
	if m.keys.selected == from {
		m.keys.selected = to
	}
	if m.detail.key == from {
		m.detail.key, m.detail.read = to, nil
	}
}
