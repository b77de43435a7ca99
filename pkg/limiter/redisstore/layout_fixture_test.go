package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tenAMinute is what an operator says of the limits of the layouts of these tests.
var tenAMinute = store.Limit{Algorithm: store.FixedWindow, Count: 1000, Period: time.Minute}

// layout is the base of layouts for tests, whose store keys are "<name>:<subject>", with
// something behind it.
type layout string

func (l layout) Info() layouts.Info {
	return layouts.Info{Name: string(l), Prefixes: []string{string(l) + ":"}}
}

func (l layout) Match(storeKey string, _ bool) (store.Key, bool) {
	subject, ok := strings.CutPrefix(storeKey, string(l)+":")
	return store.Key{Subject: strings.TrimSuffix(subject, ":timer"), Name: string(l)}, ok
}

func (l layout) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	return []string{storeKey}
}

// counted is the entry of a counter.
func counted(found *layouts.Found, text string) (admin.Entry, error) {
	used, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return admin.Entry{}, errors.New("not a counter")
	}
	return admin.Entry{Limit: found.Limit, Decision: store.Decision{Used: used, Remaining: max(0, found.Limit.Capacity()-used)}}, nil
}

func reading(err error, entries ...admin.Entry) (layouts.Reading, error) {
	return layouts.Reading{Entries: entries, Certain: true}, err
}

// pair is a counter and its timer, under two store keys.
type pair struct{ layout }

func (p pair) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	counter := strings.TrimSuffix(storeKey, ":timer")
	return []string{counter, counter + ":timer"}
}

func (p pair) Decode(found *layouts.Found) (layouts.Reading, error) {
	counter := &found.Values[0]
	if counter.Type == layouts.NoValue {
		return reading(nil)
	}
	if counter.Type != layouts.StringValue {
		return reading(fmt.Errorf("a %s", counter.Type))
	}
	e, err := counted(found, string(counter.Text))
	return reading(err, e)
}

// bucket is a hash with one number, n.
type bucket struct{ layout }

func (b bucket) Decode(found *layouts.Found) (layouts.Reading, error) {
	value := &found.Values[0]
	if value.Type == layouts.NoValue {
		return reading(nil)
	}
	if value.Type != layouts.HashValue {
		return reading(fmt.Errorf("a %s", value.Type))
	}
	text, _ := value.Field("n")
	e, err := counted(found, text)
	return reading(err, e)
}

// double is a string with two numbers, each of a limit.
type double struct{ layout }

func (d double) Decode(found *layouts.Found) (layouts.Reading, error) {
	value := &found.Values[0]
	if value.Type == layouts.NoValue {
		return reading(nil)
	}
	if value.Type != layouts.StringValue {
		return reading(fmt.Errorf("a %s", value.Type))
	}
	var entries []admin.Entry
	for i, text := range strings.Split(string(value.Text), ",") {
		e, err := counted(found, text)
		if err != nil {
			return reading(err)
		}
		e.Key = store.Key{Subject: found.Key.Subject, Name: fmt.Sprintf("%s/%d", d.layout, i)}
		entries = append(entries, e)
	}
	return reading(nil, entries...)
}

// times is a set of times, of any type that has members, or a string of some length.
type times struct{ layout }

func (s times) Decode(found *layouts.Found) (layouts.Reading, error) {
	value := &found.Values[0]
	if value.Type == layouts.NoValue {
		return reading(nil)
	}
	d := store.Decision{Used: value.Length, Remaining: int64(len(value.Members))}
	return reading(nil, admin.Entry{Limit: found.Limit, Decision: d})
}

// testLayouts are all of them.
func testLayouts() layouts.Sources {
	var sources layouts.Sources
	for _, l := range []layouts.Layout{pair{"pair"}, bucket{"bucket"}, double{"double"}, times{"times"}} {
		sources = append(sources, layouts.Source{Layout: l, Limit: tenAMinute})
	}
	return sources
}

// othersOn returns the keyspace of the test layouts in the servers of a client.
func othersOn(t testing.TB, client redis.UniversalClient, options ...redisstore.Option) admin.Keyspace {
	t.Helper()
	backend := newStore(t, client, options...)
	return backend.OtherLimiters(testLayouts())
}

// othersAt returns the keyspace of the test layouts on a server.
func othersAt(t testing.TB, server *redistest.Server) admin.Keyspace {
	t.Helper()
	return othersOn(t, server.Client())
}

// scanned returns the entries that a scan gives by their keys, and its errors. A key that
// comes twice fails the test.
func scanned(t testing.TB, keys admin.Keyspace, q admin.Query) (entries map[store.Key]admin.Entry, errs []error) {
	t.Helper()
	if q.Subjects.IsZero() {
		q.Subjects = everyKey
	}
	entries = map[store.Key]admin.Entry{}
	for e, err := range keys.Scan(ctx, q) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, has := entries[e.Key]; has {
			t.Errorf("%v comes twice", e.Key)
		}
		entries[e.Key] = e
	}
	return entries, errs
}

// recordsOf returns the records of a scan that must not fail.
func recordsOf(t testing.TB, keys admin.Keyspace) (records []admin.Record) {
	t.Helper()
	entries, errs := scanned(t, keys, admin.Query{Records: true})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, e := range entries {
		records = append(records, e.Record)
	}
	return records
}
