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

// fixture is a layout for tests, whose store keys are "<name>:<subject>".
type fixture struct {
	name string
	// timed: beside each key is one with ":timer" behind it.
	timed bool
	// decode returns the limits of a value.
	decode func(found *layouts.Found, value *layouts.Value) ([]admin.Entry, error)
}

func (f *fixture) Info() layouts.Info {
	return layouts.Info{Name: f.name, Prefixes: []string{f.name + ":"}}
}

func (f *fixture) Match(storeKey string, _ bool) (store.Key, bool) {
	subject, ok := strings.CutPrefix(storeKey, f.name+":")
	return store.Key{Subject: strings.TrimSuffix(subject, ":timer"), Name: f.name}, ok
}

func (f *fixture) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	if counter := strings.TrimSuffix(storeKey, ":timer"); f.timed {
		return []string{counter, counter + ":timer"}
	}
	return []string{storeKey}
}

func (f *fixture) Decode(found *layouts.Found) (r layouts.Reading, err error) {
	r.Certain = true
	if value := &found.Values[0]; value.Type != layouts.NoValue {
		r.Entries, err = f.decode(found, value)
	}
	return r, err
}

// counters are the entries of numbers with commas between them, or of one.
func counters(found *layouts.Found, text string) (entries []admin.Entry, err error) {
	for i, text := range strings.Split(text, ",") {
		used, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("not a counter")
		}
		e := admin.Entry{Limit: found.Limit, Decision: store.Decision{
			Used: used, Remaining: max(0, found.Limit.Capacity()-used)}}
		if i > 0 {
			e.Key = store.Key{Subject: found.Key.Subject, Name: fmt.Sprint(found.Key.Name, "/", i)}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func ofStrings(found *layouts.Found, value *layouts.Value) ([]admin.Entry, error) {
	if value.Type != layouts.StringValue {
		return nil, fmt.Errorf("a %s", value.Type)
	}
	return counters(found, string(value.Text))
}

// testLayouts are a counter with its timer, a hash with one number n, a string with two numbers, each of a limit, and a
// set of times of any type that has members, or a string of some length.
func testLayouts() layouts.Sources {
	var sources layouts.Sources
	for _, l := range []layouts.Layout{
		&fixture{"pair", true, ofStrings},
		&fixture{"bucket", false, func(found *layouts.Found, value *layouts.Value) ([]admin.Entry, error) {
			if value.Type != layouts.HashValue {
				return nil, fmt.Errorf("a %s", value.Type)
			}
			text, _ := value.Field("n")
			return counters(found, text)
		}},
		&fixture{"double", false, ofStrings},
		&fixture{"times", false, func(found *layouts.Found, value *layouts.Value) ([]admin.Entry, error) {
			d := store.Decision{Used: value.Length, Remaining: int64(len(value.Members))}
			return []admin.Entry{{Limit: found.Limit, Decision: d}}, nil
		}},
	} {
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

// scanned returns the entries that a scan gives by their keys, and its errors. A key that comes twice fails the test.
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
