package layouts

import (
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// rackAttack is Rack::Attack for Ruby: a counter for each window, which windows are numbered
// from 1970 on, and a key for each client that fail2ban or allow2ban has banned.
type rackAttack struct{ single }

const rackAttackPrefix = "rack::attack:"

// Info implements [Layout]. The facts are from github.com/rack/rack-attack 728d610d. Its keys may have the namespace of Rails in front.
func (rackAttack) Info() Info {
	return Info{
		Name: "rack-attack", Writer: "Rack::Attack", Example: "rack::attack:29921572:req/ip:203.0.113.9",
		Needs: "the count",
	}
}

// rackAttackKey is a parsed store key.
type rackAttackKey struct {
	before  string // what is in front of the window's number
	index   int64  // the window's number, 0 for a ban
	subject string
	name    string
}

// Match implements [Layout]. The name of a throttle and the client are both any text, with colons
// between and perhaps in them, so they are not separated.
func (r rackAttack) Match(storeKey string, _ bool) (store.Key, bool) {
	key, ok := r.parse(storeKey)
	return store.Key{Subject: key.subject, Name: key.name}, ok
}

func (rackAttack) parse(storeKey string) (key rackAttackKey, ok bool) {
	namespace, rest, ok := strings.Cut(storeKey, rackAttackPrefix)
	if !ok || namespace != "" && !strings.HasSuffix(namespace, ":") {
		return key, false
	}
	key.before, key.name = namespace+rackAttackPrefix, "rack-attack"
	first, subject, ok := strings.Cut(rest, ":")
	if !ok || subject == "" {
		return key, false
	}
	for _, filter := range [...]string{"fail2ban", "allow2ban"} {
		if first == filter {
			key.subject, ok = strings.CutPrefix(subject, "ban:")
			key.name += "/" + filter
			return key, ok && key.subject != ""
		}
		if of, counts := strings.CutPrefix(subject, filter+":count:"); counts {
			subject, key.name = of, key.name+"/"+filter+"-count"
		}
	}
	key.index, ok = windowNumber(first)
	key.subject = subject
	return key, ok && subject != ""
}

// windowNumber reads a window's number as limiters write it.
func windowNumber(text string) (index int64, ok bool) {
	index, err := strconv.ParseInt(text, 10, 64)
	return index, err == nil && index > 0 && strconv.FormatInt(index, 10) == text
}

// Decode implements [Layout]. A counter is kept until a second after its window's end.
func (r rackAttack) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	count, err := countOf(value)
	if err != nil {
		return Reading{}, err
	}
	key, _ := r.parse(found.StoreKey)
	usual := strings.HasPrefix(found.StoreKey, rackAttackPrefix) && count >= 0
	if key.index > 0 {
		entry, agree := windowCounter(found, count, key.index)
		return Reading{Entries: []admin.Entry{entry}, Certain: usual && agree}, nil
	}
	entry := admin.Entry{ResetTold: value.TTL >= 0}
	if entry.UsedUnknown = true; value.TTL >= 0 {
		blockEntry(&entry, value.TTL)
	}
	return lifetime{}.reading(found, entry, usual && count == 1 && value.TTL != 0)
}

// windowCounter is the entry of a counter of a numbered window in seconds, which is kept until
// about a second after the window's end. agree reports whether it is, so that it can hardly be
// anything else. The entry of a window long past is named by its number, too.
func windowCounter(found *Found, count, index int64) (entry admin.Entry, agree bool) {
	w, limit := windowOf(found.Limit, index, time.Second, 0, found.Now)
	if w.period == 0 {
		entry = admin.Entry{Limit: limit, UsedUnknown: true}
		entry.Defects = lifetime{passes: true}.defects(&entry, found.Values)
		return entry, false
	}
	until := w.until(found.Now)
	if w.age(found.Now) > 0 {
		entry = pastEntry(found.Key, limit, index)
	} else {
		entry = countEntry(limit, count, until)
	}
	entry.Defects = lifetime{longest: w.period + time.Second, needed: max(0, until), passes: true}.defects(&entry, found.Values)
	return entry, agrees(until, found.Values[0].TTL, 2*time.Second)
}
