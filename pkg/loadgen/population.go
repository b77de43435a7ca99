package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Population has the subjects of a run and their requests: each for one limit, or for several that are decided
// together.
type Population struct {
	limits   int
	requests []store.Request   // for each subject one for each limit, with a cost of 1 or its own
	own      []int64           // the cost of each limit for all requests, 0 for the cost of the load
	keys     []uint32          // the index of each request's key among the keys of its limit
	owners   [][]uint32        // for each key of each limit, one request with that key
	mixed    []map[uint32]bool // for each limit, the keys that have several limits
}

// NewPopulation calls ask for the requests of each subject: one for each limit, in the same order for every subject.
// The next call of ask may reuse the slice. Subjects may share keys. A request with a cost has that cost in the whole
// load, and for every subject the same; one without has the cost of the load. If no store would accept a subject or a
// name, a number replaces it. The error is the first one of ask, or what else is wrong with the first invalid request.
func NewPopulation(subjects int, ask func(subject int) ([]store.Request, error)) (*Population, error) {
	b := &populationBuilder{numbers: map[string]int{}}
	for subject := range subjects {
		requests, err := ask(subject)
		if err == nil {
			err = b.add(requests)
		}
		if err != nil {
			return nil, err
		}
	}
	return &b.Population, nil
}

// populationBuilder makes a Population from one subject after the other.
type populationBuilder struct {
	Population
	known      []map[store.Key]uint32 // of each limit, by the key before fit
	numbers    map[string]int         // that replace subjects
	normalized []store.Request
}

// add adds the requests of the next subject.
func (b *populationBuilder) add(requests []store.Request) (err error) {
	first := len(b.requests)
	if b.limits = len(requests); first == 0 {
		b.owners, b.own = make([][]uint32, b.limits), make([]int64, b.limits)
		for range requests {
			b.known, b.mixed = append(b.known, map[store.Key]uint32{}), append(b.mixed, map[uint32]bool{})
		}
	}
	for limit, r := range requests {
		b.own[limit] = r.Cost
		r.Cost = max(1, r.Cost)
		r.SetDefaults()
		index, is := b.known[limit][r.Key]
		if !is {
			index = uint32(len(b.owners[limit]))
			b.known[limit][r.Key] = index
			b.owners[limit] = append(b.owners[limit], uint32(first+limit))
			r.Key = b.fit(r.Key, limit, index)
		} else {
			owner := &b.requests[b.owners[limit][index]]
			r.Key = owner.Key
			if r.Limit != owner.Limit {
				b.mixed[limit][index] = true
			}
		}
		b.requests, b.keys = append(b.requests, r), append(b.keys, index)
	}
	b.normalized, err = store.NormalizeAll(b.normalized[:0], store.Take, b.requests[first:])
	return err
}

// numbered precedes a number that replaces a text.
const numbered = "#"

// fit returns a key that any store accepts. Keys of one subject keep one subject, and so lie in one slot of a Cluster.
func (b *populationBuilder) fit(key store.Key, limit int, index uint32) store.Key {
	if (store.Key{Subject: key.Subject, Name: "name"}).Validate() != nil || strings.HasPrefix(key.Subject, numbered) {
		number, is := b.numbers[key.Subject]
		if !is {
			number = len(b.numbers)
			b.numbers[key.Subject] = number
		}
		key.Subject = fmt.Sprint(numbered, number)
	}
	if (store.Key{Subject: "subject", Name: key.Name}).Validate() != nil || strings.HasPrefix(key.Name, numbered) {
		key.Name = fmt.Sprintf("%s%d:%d", numbered, limit, index)
	}
	return key
}

// MixedKeys returns the number of a limit's keys that have different limits in turn. That happens if the key does
// not contain the attribute that selects an override. An audit can judge such a key by one of its limits only.
func (p *Population) MixedKeys(limit int) int { return len(p.mixed[limit]) }

// isShadow reports whether a limit denies nothing.
func (p *Population) isShadow(limit int) bool { return p.requests[limit].Shadow }

// spreads reports whether limits that are decided together can have different subjects.
func (p *Population) spreads() bool {
	for first := 0; p.limits > 1 && first < len(p.requests); first += p.limits {
		for _, r := range p.requests[first+1 : first+p.limits] {
			if r.Key.Subject != p.requests[first].Key.Subject {
				return true
			}
		}
	}
	return false
}

// Size returns the number of subjects.
func (p *Population) Size() int { return len(p.requests) / max(1, p.limits) }

// Limits returns the number of limits that are decided together.
func (p *Population) Limits() int { return p.limits }

// Requests returns the requests of a subject, one for each limit, with a cost of 1 or its own. Do not change them.
func (p *Population) Requests(subject uint32) []store.Request {
	return p.requests[int(subject)*p.limits : int(subject+1)*p.limits]
}

// KeyIndexes returns the index of each of the subject's keys among the keys of its limit. Do not change them.
func (p *Population) KeyIndexes(subject uint32) []uint32 {
	return p.keys[int(subject)*p.limits : int(subject+1)*p.limits]
}

// auditors returns an audit of each limit that knows the limits of its keys.
func (p *Population) auditors() []*audit.Auditor {
	all := make([]*audit.Auditor, p.limits)
	for limit := range all {
		all[limit] = audit.New()
		for key, owner := range p.owners[limit] {
			all[limit].SetLimit(uint32(key), p.requests[owner].Limit)
		}
		for key := range p.mixed[limit] {
			all[limit].Doubt(key)
		}
	}
	return all
}

// KeyOf returns a key of a limit by its index.
func (p *Population) KeyOf(limit int, index uint32) store.Key {
	return p.requests[p.owners[limit][index]].Key
}

// AllKeys returns every key once.
func (p *Population) AllKeys() (all []store.Key) {
	for _, owners := range p.owners {
		for _, owner := range owners {
			all = append(all, p.requests[owner].Key)
		}
	}
	return all
}

// costOf is the cost of a request for a limit that may have its own.
func costOf(own []int64, limit int, cost int64) int64 {
	if limit < len(own) && own[limit] != 0 {
		return own[limit]
	}
	return cost
}

// MostAtOnce returns the highest cost of a load that fits every limit that can deny.
func (p *Population) MostAtOnce() int64 {
	most := int64(store.MaxCount)
	for i := range p.requests {
		if r := &p.requests[i]; !r.Shadow && p.own[i%p.limits] == 0 {
			most = min(most, r.Capacity())
		}
	}
	return most
}

// Distribution says how often each subject sends requests. The zero Distribution has no subjects.
type Distribution struct {
	subjects uint32
	sums     []float64 // of the weights through each subject; nil if all are equally likely
}

// Subjects returns the number of subjects.
func (d Distribution) Subjects() int { return int(d.subjects) }

// Evenly has n equally likely subjects, at random.
func Evenly(n uint32) Distribution { return Distribution{subjects: n} }

// Zipf has n subjects. Subject i, from 1, is chosen in proportion to 1 ÷ i^s, as is common for users, addresses and
// pages with s about 1. s must be positive.
func Zipf(n uint32, s float64) Distribution {
	d, sum := Distribution{subjects: n, sums: make([]float64, n)}, 0.0
	for i := range d.sums {
		sum += math.Pow(float64(i+1), -s)
		d.sums[i] = sum
	}
	return d
}

// choose returns the next subject.
func (d *Distribution) choose(random *rand.Rand) uint32 {
	switch {
	case d.sums != nil:
		last := len(d.sums) - 1
		point := random.Float64() * d.sums[last]
		return uint32(min(last, sort.Search(last, func(i int) bool { return d.sums[i] > point })))
	case d.subjects == 1:
		return 0
	}
	return random.Uint32N(d.subjects)
}
