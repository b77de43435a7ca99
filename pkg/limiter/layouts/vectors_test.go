package layouts

import (
	"reflect"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// vector is what a limiter is known to write, and what it would answer itself at an instant.
type vector struct {
	name     string
	storeKey string // the one that a scan comes across
	values   []Value
	now      store.Instant
	limit    store.Limit // what an operator says
	// key is what Match says, and want what Decode says, without what a caller fills in.
	key     store.Key
	want    []admin.Entry
	certain bool
	// wrong is the error of Decode, if there is one.
	wrong string
}

// vectors are those of all layouts, by name.
func vectors() map[string][]vector {
	return map[string][]vector{
		"apisix":                apisixVectors(),
		"bucket4j":              bucket4jVectors(),
		"counter":               counterVectors(),
		"django-ratelimit":      djangoRatelimitVectors(),
		"drf":                   drfVectors(),
		"envoy":                 envoyVectors(),
		"gcra-ns":               gcraNsVectors(),
		"kong":                  kongVectors(),
		"laravel":               laravelVectors(),
		"limits":                limitsVectors(),
		"nestjs":                nestjsVectors(),
		"rack-attack":           rackAttackVectors(),
		"rate-limit-redis":      rateLimitRedisVectors(),
		"rate-limiter-flexible": rateLimiterFlexibleVectors(),
		"redis-cell":            redisCellVectors(),
		"redis_rate":            redisRateVectors(),
		"spring-cloud-gateway":  springVectors(),
		"throttled":             throttledVectors(),
		"time-set":              timeSetVectors(),
		"token-hash":            tokenHashVectors(),
		"traefik":               traefikVectors(),
		"ulule":                 ululeVectors(),
		"upstash":               upstashVectors(),
	}
}

// text is a string value.
func text(storeKey, text string, ttl time.Duration) Value {
	return Value{StoreKey: storeKey, Type: StringValue, Text: []byte(text), Length: int64(len(text)), TTL: ttl}
}

// hash is a hash, of fields and their texts in turns.
func hash(storeKey string, ttl time.Duration, fields ...string) Value {
	value := Value{StoreKey: storeKey, Type: HashValue, TTL: ttl, Length: int64(len(fields) / 2)}
	for i := 0; i < len(fields); i += 2 {
		value.Members = append(value.Members, Member{Name: fields[i], Text: fields[i+1]})
	}
	return value
}

// list is a list, of its members from the beginning.
func list(storeKey string, ttl time.Duration, members ...string) Value {
	value := Value{StoreKey: storeKey, Type: ListValue, TTL: ttl, Length: int64(len(members))}
	for _, member := range members {
		value.Members = append(value.Members, Member{Name: member})
	}
	return value
}

func TestVectors(t *testing.T) {
	all := vectors()
	for _, layout := range All() {
		name := layout.Info().Name
		if len(all[name]) == 0 {
			t.Errorf("%s has no vectors", name)
		}
		for _, v := range all[name] {
			t.Run(name+"/"+v.name, func(t *testing.T) { v.check(t, layout) })
		}
	}
}

func (v *vector) check(t *testing.T, layout Layout) {
	key, ok := layout.Match(v.storeKey, true)
	if !ok || key != v.key {
		t.Fatalf("it matches %+v, %v, want %+v", key, ok, v.key)
	}
	reading, err := decode(layout, v.found(layout))
	if v.wrong != "" {
		if err == nil || err.Error() != v.wrong {
			t.Fatalf("got error %v, want %q", err, v.wrong)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if reading.Certain != v.certain {
		t.Errorf("certain is %v, want %v", reading.Certain, v.certain)
	}
	if !reflect.DeepEqual(reading.Entries, v.want) {
		t.Errorf("got  %+v\nwant %+v", reading.Entries, v.want)
	}
}

// found is what a store would give to the layout's Decode.
func (v *vector) found(layout Layout) *Found {
	key, _ := layout.Match(v.storeKey, true)
	found := &Found{StoreKey: v.storeKey, Key: key, Now: v.now, Limit: v.limit}
	for _, storeKey := range layout.Together(v.storeKey, v.limit, v.now) {
		found.Values = append(found.Values, v.value(storeKey))
	}
	return found
}

// value is what the vector has under a store key.
func (v *vector) value(storeKey string) Value {
	for i := range v.values {
		if v.values[i].StoreKey == storeKey {
			return v.values[i]
		}
	}
	return Value{StoreKey: storeKey, Type: NoValue, TTL: -2} // as PTTL says it
}
