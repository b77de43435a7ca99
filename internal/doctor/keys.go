package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keys looks at the keys by the store's own scan.
func (e *examination) keys(ctx context.Context, _ []*server) error {
	keyspace, has := admin.KeyspaceOf(e.Store)
	if !has {
		return nil
	}
	facts, err := e.scan(ctx, keyspace)
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
	e.report.add(judgeKeys(facts)...)
	return err
}

// scan reads keys up to the limit. An error can come with facts about those of other masters.
func (e *examination) scan(ctx context.Context, keyspace admin.Keyspace) (*keyFacts, error) {
	all, err := store.ParsePattern("*")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	f := &keyFacts{prefix: e.Prefix, complete: true}
	var came int64
	query := admin.Query{Subjects: all, Foreign: true, Progress: func(looked, total int64) {
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

// keyFacts are the results of reading the keys. Their size does not grow with the number of keys.
type keyFacts struct {
	prefix         string
	looked, total  int64 // keys of the store, of limitctl or not; the total is 0 if it is unknown
	complete       bool
	limits         int64
	noTTL, foreign sample
	foreignKey     string // the first of them
	damaged        sample // records of limitctl that cannot be read
}

// sample counts keys, and keeps the first few.
type sample struct {
	count    int64
	examples []string
}

func (s *sample) add(text string) {
	const most = 3
	if s.count++; len(s.examples) < most {
		s.examples = append(s.examples, output.Printable(text))
	}
}

func (s *sample) text() string {
	text := strings.Join(s.examples, ", ")
	if s.count > int64(len(s.examples)) {
		text += ", …"
	}
	return text
}

// add counts an entry of a scan as a limit, or as what err, if it is not nil, says of it.
func (f *keyFacts) add(entry *admin.Entry, err error) {
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
}

func judgeKeys(f *keyFacts) []Finding {
	limits := output.Count(f.limits, "limit")
	keys := fine("keys", "%s among all %s of the store", limits, output.Count(f.looked, "key"))
	switch {
	case !f.complete:
		keys.Summary = fmt.Sprintf("stopped early: %s%s (--scan-limit 0 looks at all)", limits, f.among())
	case f.total == 0: // unknown
		keys.Summary = limits + " among all keys of the store"
	}
	ttl := fine("ttl", "every limit expires")
	switch {
	case f.noTTL.count > 0:
		ttl = warn("ttl",
			fmt.Sprintf("%s without an expiry%s, as after a PERSIST or a copy: %s",
				output.Count(f.noTTL.count, "limit"),
				f.among(), f.noTTL.text()),
			"see limitctl inspect '*' --no-ttl; the next take that is allowed sets its expiry again, "+
				"unless its record is damaged, and a reset deletes it")
	case !f.complete:
		ttl.Summary = "no limit without an expiry" + f.among()
	}
	foreign := fine("foreign", "no foreign keys under the prefix %s%s", f.prefix, f.among())
	if f.foreign.count > 0 {
		foreign = warn("foreign", fmt.Sprintf("%s under the prefix %s that limitctl did not write%s: %s",
			output.Count(f.foreign.count, "key"), f.prefix, f.among(), f.foreign.text()),
			"limitctl does not touch them; give limits a prefix of their own (--prefix), "+
				"or delete what nobody needs: "+shell.Unlink(f.foreignKey))
	}
	all := []Finding{keys, ttl, foreign}
	if f.damaged.count > 0 {
		all = append(all, fail("damaged", fmt.Sprintf("%s of limitctl damaged%s, so that takes can fail: %s",
			output.Count(f.damaged.count, "record"), f.among(), f.damaged.text()),
			"a reset of the key deletes the record, and the next take begins anew"))
	}
	return all
}

// among says among which keys something was found. It is empty if all were looked at.
func (f *keyFacts) among() string {
	if f.complete {
		return ""
	}
	return " among the " + output.Count(f.looked, "key") + " looked at"
}
