package layouts

import (
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// apisix is Apache APISIX with its plugin limit-count in fixed windows: a counter whose window begins with the first
// request.
type apisix struct{ single }

// The keys of other plugins and of windows that slide begin otherwise. Until 2026 a key had no "v1", and its number was
// what remains.
const apisixPrefix, apisixVersion = "plugin-limit-count", ":v1:"

// Info implements [Layout]. The facts are from github.com/apache/apisix f519a0f0.
func (apisix) Info() Info {
	return Info{
		Name: "apisix", Writer: "Apache APISIX: limit-count in fixed windows",
		Example: "plugin-limit-count:v1:/apisix/routes/1:1626:203.0.113.9", Prefixes: []string{apisixPrefix},
		Needs:  "the limit",
		Beyond: "With sync_interval APISIX counts by itself, and adds its count to Redis at the next sync.",
	}
}

// Match implements [Layout]. The key is "<group>:<value>", or "<route or other object>:<version of its
// configuration>:<value>".
func (apisix) Match(storeKey string, _ bool) (store.Key, bool) {
	rest, ok := strings.CutPrefix(storeKey, apisixPrefix)
	key, isNew := strings.CutPrefix(rest, apisixVersion)
	if !ok || !isNew && strings.HasPrefix(rest, ":") {
		return store.Key{}, false
	}
	object, value, found := strings.Cut(key, ":")
	if version, rest, ok := strings.Cut(value, ":"); ok && strings.HasPrefix(object, "/") && isDigits(version) {
		value = rest
	}
	object = strings.TrimPrefix(strings.TrimPrefix(object, "/apisix"), "/")
	return store.Key{Subject: value, Name: "apisix/limit-count/" + object}, found && value != ""
}

// Decode implements [Layout].
func (apisix) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	limit, isNew := fromFirst(found.Limit), strings.HasPrefix(found.StoreKey, apisixPrefix+apisixVersion)
	entry := countEntry(limit, count, value.TTL)
	switch {
	case value.TTL < 0: // APISIX begins anew
		entry = countEntry(limit, 0, 0)
	case !isNew && limit.Count > 0:
		entry = countEntry(limit, limit.Count-max(count, -store.MaxUsage), value.TTL)
	case !isNew:
		entry.Used, entry.UsedUnknown, entry.ResetAfter = 0, true, value.TTL
	}
	return lifetime{longest: limit.Period, passes: value.TTL < 0}.reading(found, entry, value.TTL > 0 || isNew)
}
