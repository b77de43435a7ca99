package layouts

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// kongAdvanced is a store key of the plugin rate-limiting-advanced, "<begin in s>:<size in
// s>:<namespace>": a hash with a counter of each client in its fields. The window slides: the
// one before counts for the part of it that is not yet past.
type kongAdvanced struct {
	begin, size int64
	namespace   string
}

func parseKongAdvanced(storeKey string) (w kongAdvanced, ok bool) {
	begin, rest, _ := strings.Cut(storeKey, ":")
	size, namespace, _ := strings.Cut(rest, ":")
	if !isDigits(begin) || !isDigits(size) || len(begin) != len("1795294320") || len(size) > len("31622400") || namespace == "" {
		return w, false
	}
	w.begin, _ = strconv.ParseInt(begin, 10, 64)
	w.size, _ = strconv.ParseInt(size, 10, 64)
	w.namespace = namespace
	return w, w.size > 0 && w.begin%w.size == 0
}

func (w *kongAdvanced) name() string {
	return "kong/advanced/" + store.FormatPeriod(w.period()) + "/" + w.namespace
}

func (w *kongAdvanced) period() time.Duration { return time.Duration(w.size) * time.Second }

func (w *kongAdvanced) storeKey(begin int64) string {
	return strconv.FormatInt(begin, 10) + ":" + strconv.FormatInt(w.size, 10) + ":" + w.namespace
}

// together returns the hashes of the current window and of the one before it.
func (w *kongAdvanced) together(storeKey string, now store.Instant) []string {
	current := window{w.begin / w.size, w.period()}
	if age := current.age(now); age != 0 && age != 1 || w.storeKey(w.begin) != storeKey {
		return []string{storeKey}
	}
	begin := now.Time().Unix()
	begin -= begin % w.size
	return []string{w.storeKey(begin), w.storeKey(begin - w.size)}
}

func (w *kongAdvanced) limitOf(said store.Limit) store.Limit {
	return counted(store.Limit{Algorithm: store.SlidingCounter, Period: w.period()}, said)
}

// decodeKongAdvanced returns an entry of each client. Denied requests count, too.
func decodeKongAdvanced(found *Found) (Reading, error) {
	w, ok := parseKongAdvanced(found.StoreKey)
	if !ok {
		return Reading{}, errNotHash
	}
	clients := map[string]*twoWindows{}
	limit := w.limitOf(found.Limit)
	rest := window{int64(found.Now) / 1_000_000 / w.size, w.period()}.until(found.Now)
	whole := true
	for i := range found.Values {
		value := &found.Values[i]
		if value.Type == NoValue {
			continue
		}
		if value.Type != HashValue {
			return Reading{}, notA(value.Type, HashValue)
		}
		whole = whole && value.Length == int64(len(value.Members))
		for _, member := range value.Members {
			count, err := countOf(&Value{Type: StringValue, Text: []byte(member.Text), Length: int64(len(member.Text))})
			if err != nil {
				return Reading{}, errNotHash
			}
			client := clients[member.Name]
			if client == nil {
				client = &twoWindows{size: w.period(), rest: rest}
				clients[member.Name] = client
			}
			if i == 0 {
				client.current = float64(count)
			} else {
				client.previous = float64(count)
			}
		}
	}
	if len(clients) == 0 {
		return Reading{}, nil
	}
	if len(found.Values) == 1 {
		return w.past(found, limit)
	}
	reading := Reading{Certain: w.isKept(found.Values)}
	for name, client := range clients {
		entry := client.entry(limit)
		entry.Key = store.Key{Subject: name, Name: found.Key.Name}
		entry.UsedUnknown = !whole // a client can be among those that were not read
		for i := range found.Values {
			if _, has := found.Values[i].Field(name); has {
				entry.Record.Members = append(entry.Record.Members,
					admin.Member{StoreKey: found.Values[i].StoreKey, Field: name, Type: string(HashValue)})
			}
		}
		entry.Defects = lifetime{longest: 2 * w.period(), passes: true}.defects(&entry, found.Values)
		reading.Entries = append(reading.Entries, entry)
	}
	slices.SortFunc(reading.Entries, func(a, b admin.Entry) int { return cmp.Compare(a.Key.Subject, b.Key.Subject) })
	return reading, nil
}

// isKept reports whether the hashes that are there expire when the plugin's do: two windows after
// the first request. Other counters of minutes and days have such keys, too, and statistics are
// often kept for ever.
func (w *kongAdvanced) isKept(all []Value) bool {
	return !slices.ContainsFunc(all, func(v Value) bool {
		return v.Type != NoValue && (v.TTL < 0 || v.TTL > 2*w.period()+clocksDiffer)
	})
}

// past is the reading of a hash whose window counts for nothing any more. It is one entry, since
// nobody is limited by it.
func (w *kongAdvanced) past(found *Found, limit store.Limit) (Reading, error) {
	entry := pastEntry(store.Key{Subject: w.namespace, Name: found.Key.Name}, limit, w.begin)
	entry.RetryTold = true
	return lifetime{longest: 2 * w.period(), passes: true}.reading(found, entry, w.isKept(found.Values))
}

// entry is that of a limiter which allows a request if all that is in use then is at most the
// limit.
func (w *twoWindows) entry(limit store.Limit) admin.Entry {
	entry := admin.Entry{Limit: limit, ResetTold: true}
	used := w.used()
	entry.Used, entry.ResetAfter = toInt64(math.Ceil(used)), w.empty()
	if !entry.CapacityKnown() {
		return entry
	}
	entry.Remaining = max(0, limit.Count-entry.Used)
	entry.Allowed = used+1 <= float64(limit.Count)
	entry.RetryTold = true
	entry.RetryAfter = w.until(float64(limit.Count - 1))
	return entry
}

// setKongAdvanced writes the whole count of found.Key.Subject into the current window.
func setKongAdvanced(found *Found, remaining int64) ([]Write, error) {
	w, ok := parseKongAdvanced(found.StoreKey)
	if !ok || len(found.Values) != 2 {
		return nil, windowOver(found)
	}
	count, err := toCount(w.limitOf(found.Limit), remaining)
	if err != nil {
		return nil, err
	}
	client := found.Key.Subject
	current := writeCount(&found.Values[0], count, 2*w.period())
	current.Field = client
	writes := []Write{current}
	if _, has := found.Values[1].Field(client); has {
		writes = append(writes, Write{StoreKey: found.Values[1].StoreKey, Field: client, Text: "0"})
	}
	return writes, nil
}
