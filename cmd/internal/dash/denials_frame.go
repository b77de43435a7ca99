package dash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DenialFrame is who was being denied at a frame.
type DenialFrame struct {
	// PerSecond is the denials a second of all selected keys, and OthersPerSecond those of
	// keys that are not told apart.
	PerSecond       float64 `json:"per_second"`
	OthersPerSecond float64 `json:"others_per_second,omitempty"`
	// Lost: some denials are counted nowhere.
	Lost bool        `json:"lost,omitempty"`
	Keys []DeniedKey `json:"keys,omitempty"`
}

// DeniedKey is how one key was being denied.
type DeniedKey struct {
	Key       string  `json:"key"`
	Name      string  `json:"name"`
	PerSecond float64 `json:"per_second"`
	// AgoMS is how long ago its last denial was.
	AgoMS int64 `json:"ago_ms"`
	// Blocked: a block denies it.
	Blocked bool `json:"blocked,omitempty"`
}

// mostPerSecond is a rate that no key has.
const mostPerSecond = 1e12

// UnmarshalJSON implements json.Unmarshaler. It refuses what no dashboard wrote.
func (f *DenialFrame) UnmarshalJSON(text []byte) error {
	type plain DenialFrame
	if err := json.Unmarshal(text, (*plain)(f)); err != nil {
		return err
	}
	sound := isRate(f.PerSecond) && isRate(f.OthersPerSecond)
	for i := range f.Keys {
		k := &f.Keys[i]
		if err := (store.Key{Subject: k.Key, Name: k.Name}).Validate(); err != nil {
			return err
		}
		sound = sound && isRate(k.PerSecond) && k.AgoMS >= 0 && k.AgoMS <= mostOfAnything
	}
	if !sound {
		return fmt.Errorf("a rate or a time of denials is out of range")
	}
	return nil
}

func isRate(perSecond float64) bool { return perSecond >= 0 && perSecond <= mostPerSecond }

// frame is what a recording keeps, nil if nothing is known. The keys denied most come first.
func (d *denials) frame(now time.Time) *DenialFrame {
	if !d.known || d.problem != nil {
		return nil
	}
	f := &DenialFrame{PerSecond: d.total, OthersPerSecond: d.others, Lost: d.lost}
	for key, known := range d.keys {
		f.Keys = append(f.Keys, DeniedKey{key.Subject, key.Name, known.rate, max(0, output.Milliseconds(now.Sub(known.last))),
			known.blocked})
	}
	slices.SortFunc(f.Keys, func(a, b DeniedKey) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
	})
	return f
}

// play shows the denials of a recorded frame.
func (m *model) playDenials(f *DenialFrame, at time.Time) {
	d := &m.feed.denials
	if f == nil {
		d.known, d.keys = false, map[store.Key]*denial{}
	} else {
		keys := make(map[store.Key]*denial, len(f.Keys))
		for _, k := range f.Keys {
			key := store.Key{Subject: k.Key, Name: k.Name}
			known := &denial{rate: k.PerSecond, last: at.Add(-milliseconds(k.AgoMS)), blocked: k.Blocked}
			if before := d.keys[key]; before != nil {
				known.placed = before.placed
			}
			known.place()
			keys[key] = known
		}
		d.known, d.lost, d.total, d.others, d.keys = true, f.Lost, f.PerSecond, f.OthersPerSecond, keys
	}
	m.followDenied()
}
