package keyspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// When a scan or a script finds a value that limitctl did not write, it knows only that. One
// more look, with commands that read, can tell whose the value is. The look only helps people:
// it is bounded, one runs at a time, and a failure is ignored.

const (
	// mostRecognised is how many values of a call or a scan are looked at, unless more are asked for.
	mostRecognised = 20
	// recognisedWithin bounds how long a call that has failed waits for it.
	recognisedWithin = time.Second
)

// Recognised returns err, whose foreign values say what they look like. Of many only the first do.
func (k *keys) Recognised(ctx context.Context, err error) error {
	if err == nil || !errors.Is(err, store.ErrForeign) || !k.recognising.CompareAndSwap(false, true) {
		return err
	}
	defer k.recognising.Store(false)
	ctx, cancel := context.WithTimeout(ctx, recognisedWithin)
	defer cancel()
	values := foreignIn(err)
	k.recognise(ctx, k.Client, values[:min(len(values), mostRecognised)])
	return err
}

// foreignIn returns the foreign values that an error is about.
func foreignIn(err error) (values []*store.ForeignError) {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, one := range joined.Unwrap() {
			values = append(values, foreignIn(one)...)
		}
		return values
	}
	if inner := errors.Unwrap(err); inner != nil {
		return foreignIn(inner)
	}
	var value *store.ForeignError
	if errors.As(err, &value) {
		return []*store.ForeignError{value}
	}
	return nil
}

// recogniseBatch says what the foreign values of a batch are. A query for foreign values gets a full
// look at each; any other scan at the first few, since no more are shown.
func (sc *ownScan) recogniseBatch(ctx context.Context, server redis.Cmdable, read []found) {
	var values, others []*store.ForeignError
	for i := range read {
		for _, value := range foreignIn(read[i].err) {
			if sc.query.Foreign || sc.explained.Add(1) <= mostRecognised {
				values = append(values, value)
			} else if value.Holds == "" {
				others = append(others, value)
			}
		}
	}
	for some := range slices.Chunk(values, mostRecognised) {
		sc.recognise(ctx, server, some)
	}
	for some := range slices.Chunk(others, redisserver.KeysPerRead) {
		sc.nameTypes(ctx, server, some)
	}
}

// nameTypes says of values what types they have.
func (k *keys) nameTypes(ctx context.Context, server redis.Cmdable, values []*store.ForeignError) {
	pipe := server.Pipeline()
	types := make([]*redis.StatusCmd, len(values))
	for i := range values {
		types[i] = pipe.Type(ctx, values[i].StoreKey)
	}
	pipe.Exec(ctx) // after an error the type stays unknown
	for i := range values {
		values[i].Holds = k.holds(layouts.ValueType(types[i].Val()))
	}
}

// recognise looks at values and says in each error what it looks like. An error that says
// nothing yet gets at least the type.
func (k *keys) recognise(ctx context.Context, server redis.Cmdable, values []*store.ForeignError) {
	storeKeys := make([]string, len(values))
	for i := range values {
		storeKeys[i] = values[i].StoreKey
	}
	r := &reader{keys: k, server: server, values: map[string]*heldValue{}}
	err := r.add(ctx, storeKeys)
	for _, value := range values {
		held := r.values[value.StoreKey]
		if value.Holds == "" {
			value.Holds = k.holds("")
			if err == nil {
				value.Holds = k.holdsValue(&held.Value)
			}
		}
		if k.describe == nil || err != nil || held.Type == layouts.NoValue || held.tooLarge != "" {
			continue
		}
		switch is := k.describe(&held.Value, r.instant(r.at(value.StoreKey))); {
		case is.Layout == "":
		case is.ByValue:
			value.Holds = "what looks like " + is.Text + ", which is not a limit record"
		default:
			value.Holds = is.Text + ", which is not a limit record"
		}
	}
}

// holdsValue says what a value is that no limit has.
func (k *keys) holdsValue(value *layouts.Value) string {
	if value.Type != layouts.StringValue {
		return k.holds(value.Type)
	}
	if _, err := store.DecodeRecordLimit(value.Text); err == nil {
		return "a limit record, under a key that no limit has"
	}
	return fmt.Sprintf("%d bytes that are not a limit record", value.Length)
}

// holds says what a value of a type is, which is empty if it is not known.
func (k *keys) holds(kind layouts.ValueType) string {
	switch kind {
	case "":
		kind = "value of another type"
	case layouts.NoValue:
		return "nothing any more"
	default: // handled below
	}
	return "a " + k.Servers.Redact(string(kind)) + ", which is not a limit record"
}
