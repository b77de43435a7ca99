package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keys looks at the keys by the store's own scan.
func (e *examination) keys(ctx context.Context, _ []*server) error {
	keyspace, has := admin.KeyspaceOf(e.Store)
	if !has {
		return nil
	}
	facts, err := e.scan(ctx, keyspace, true)
	if errors.Is(err, store.ErrRefused) { // perhaps the sizes alone
		noSize := err
		if facts, err = e.scan(ctx, keyspace, false); err == nil {
			e.report.add(unread("size", noSize))
		}
	}
	lost := (*admin.IncompleteError)(nil)
	switch {
	case errors.Is(err, store.ErrRefused) && redisserver.WrongAnswer(err) == nil && !errors.As(err, &lost):
		e.report.add(unread("keys", err))
		return nil
	case errors.As(err, &lost):
		facts.complete = false
		if e.unreached { // which has a finding
			err = nil
		}
	case err != nil:
		return err
	}
	e.holdsLimits = facts.limits > 0 || !facts.complete
	e.report.add(judgeKeys(facts)...)
	return err
}

// scan reads keys up to the limit. An error can come with facts about those of other masters.
func (e *examination) scan(ctx context.Context, keyspace admin.Keyspace, sizes bool) (*keyFacts, error) {
	all, err := store.ParsePattern("*")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &keyFacts{prefix: e.Prefix, complete: true, sized: sizes, perPolicy: map[string]int64{}}
	var came int64
	query := admin.Query{Subjects: all, Foreign: true, Bytes: sizes, Progress: func(looked, total int64) {
		f.looked, f.total = max(looked, came), total
		if e.ScanLimit > 0 && f.looked >= int64(e.ScanLimit) && (total == 0 || looked < total) {
			f.complete = false
			stop()
		}
	}}
	for entry, err := range keyspace.Scan(ctx, query) {
		if !f.complete {
			break
		}
		came++
		if foreign := (*store.ForeignError)(nil); err != nil && !errors.As(err, &foreign) {
			return f, err
		}
		f.add(&entry, err)
	}
	return f, nil
}

// examples is the number of keys that are named as examples.
const examples = 3

// keyFacts are the results of reading the keys. Their size does not grow with the number of keys.
type keyFacts struct {
	prefix         string
	looked, total  int64 // keys of the store, of limitctl or not; the total is 0 if it is unknown
	complete       bool
	sized          bool // sizes are known
	limits, bytes  int64
	noTTL, foreign sample
	foreignKey     string // the first of them
	damaged        sample // records of limitctl that cannot be read
	perPolicy      map[string]int64
	biggest        []ranked
}

// sample counts keys, and keeps the first few.
type sample struct {
	count    int64
	examples []string
}

func (s *sample) add(text string) {
	if s.count++; len(s.examples) < examples {
		s.examples = append(s.examples, text)
	}
}

// ranked is a key and its size.
type ranked struct {
	storeKey string
	bytes    int64
}

// add counts an entry of a scan as a limit, by its policy, or as what err, if it is not nil, says of it.
func (f *keyFacts) add(entry *admin.Entry, err error) {
	if f.sized {
		f.rank(ranked{entry.StoreKey, entry.Bytes})
	}
	wrong := (*store.ForeignError)(nil)
	if errors.As(err, &wrong) && !wrong.IsDamaged() {
		f.foreignKey = cmp.Or(f.foreignKey, entry.StoreKey)
		f.foreign.add(entry.StoreKey + " (" + wrong.Holds + ")")
		return
	}
	if entry.TTL < 0 {
		f.noTTL.add(entry.StoreKey)
	}
	if err != nil {
		f.damaged.add(entry.StoreKey)
		return
	}
	f.limits++
	f.bytes += entry.Bytes
	f.perPolicy[groupOf(entry)]++
}

// rank keeps the few biggest.
func (f *keyFacts) rank(k ranked) {
	at, _ := slices.BinarySearchFunc(f.biggest, k, func(a, b ranked) int { return cmp.Compare(b.bytes, a.bytes) })
	if at < examples {
		f.biggest = slices.Insert(f.biggest, at, k)
		f.biggest = f.biggest[:min(examples, len(f.biggest))]
	}
}

// groupOf returns the name under which limits are counted: "api/user" for a policy, else the algorithm and the
// period.
func groupOf(e *admin.Entry) string {
	if parts, ok := policy.ParseKey(e.Key); ok {
		return parts.LimitName()
	}
	if !e.LimitKnown() {
		return e.LimitText()
	}
	if e.Limit.Calendar != nil { // a record has the end of its window, which is not the same for all keys
		return e.Key.Name
	}
	return e.Limit.DefaultName()
}
