package layouts

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sethvargo is github.com/sethvargo/go-redisstore for go-limiter: a hash with the start of its
// first window and the window's number since then, by the clock of the client, and how many
// tokens are left in it. It tells the limit, and the period from the second window on.
type sethvargo struct{ single }

// Info implements [Layout].
func (sethvargo) Info() Info {
	return Info{
		Name: "sethvargo", Called: "a go-limiter bucket", Writer: "sethvargo/go-redisstore for go-limiter",
		Example: "203.0.113.9", Type: "hash", Needs: "the period, during the first window",
		Source: "github.com/sethvargo/go-redisstore 2403f33a",
	}
}

// Match implements [Layout]. Keys are the caller's.
func (l sethvargo) Match(storeKey string, _ bool) (store.Key, bool) {
	return store.Key{Subject: storeKey, Name: l.Info().Name}, storeKey != ""
}

// ticks is the hash. Its fields are named by a letter each. Numbers are those of Lua.
type ticks struct {
	start    float64 // s: of the first window, in ns since 1970
	last     float64 // t: the number of the window that tokens is of
	interval float64 // i: in ns; 0 if it is not known
	most     float64 // m: the limit
	tokens   float64 // k
	isNew    bool    // nothing was taken: it was set only, so the first take starts it
}

func parseTicks(found *Found) (t ticks, err error) {
	value := &found.Values[0]
	if value.Type != HashValue {
		return t, notA(value.Type, HashValue)
	}
	fields := map[string]*float64{"s": &t.start, "t": &t.last, "i": &t.interval, "m": &t.most, "k": &t.tokens}
	has := 0
	for i := range value.Members {
		member := &value.Members[i]
		if fields[member.Name] == nil {
			return t, errors.New("a hash with other fields than s, t, i, m and k")
		}
		number, err := strconv.ParseFloat(member.Text, 64)
		if err != nil || !(math.Abs(number) < math.MaxInt64/4) {
			return t, errors.New("a hash with a field that is not a number")
		}
		*fields[member.Name] = number
		has++
	}
	_, hasStart := value.Field("s")
	_, hasMost := value.Field("m")
	_, hasTokens := value.Field("k")
	if !hasMost || !hasTokens || !hasStart && t.interval == 0 {
		return t, errors.New("a hash without the fields m and k")
	}
	t.isNew = !hasStart
	if t.most < 1 || t.most > math.MaxInt64/2 || t.interval < 0 || t.start < 0 || t.last < 0 {
		return t, errors.New("a hash with a number that no limit has")
	}
	if t.interval == 0 {
		t.interval = float64(found.Limit.Period)
	}
	return t, nil
}

// at brings the hash to an instant, as the library's script does.
func (t ticks) at(now int64) (at ticks, next float64) {
	if t.isNew {
		t.start = float64(now)
	}
	current := max(0, math.Floor((float64(now)-t.start)/t.interval))
	if t.last < current {
		// The script means a rate, and divides by the tokens. Of none that is all of them.
		t.tokens = min(t.most, (current-t.last)*(t.interval/t.tokens))
		t.last = current
	}
	return t, t.start + (current+1)*t.interval
}

// Decode implements [Layout]. The fields are those of no other limiter.
func (l sethvargo) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	t, err := parseTicks(found)
	if err != nil {
		return Reading{}, err
	}
	now := nanoseconds(found.Now)
	entry := admin.Entry{UsedUnknown: true, Limit: store.Limit{
		Algorithm: store.FixedWindow, Count: int64(t.most), Period: time.Duration(t.interval), FromFirst: true}}
	entry.Limit.Burst = entry.Limit.Count
	kept := lifetime{longest: max(sethvargoWeek, 3*entry.Limit.Period), passes: true}
	switch {
	case t.interval > 0:
		current, next := t.at(now)
		heldEntry(&entry, current.tokens)
		entry.Used = max(0, entry.Used)                                       // an operator may have given more tokens than the limit
		entry.ResetAfter = max(0, time.Duration(int64(min(next, 1<<62))-now)) // a float may be some ns early, or anything
		if entry.Allowed = current.tokens > 0; !entry.Allowed {
			entry.RetryAfter = entry.ResetAfter
		}
		if !t.isNew {
			kept.needed = entry.ResetAfter
		}
	case isInFirstWindow(&t, value.TTL, now):
		heldEntry(&entry, t.tokens)
		entry.Allowed = t.tokens > 0
	}
	const oldest = 366 * 24 * time.Hour
	age := time.Duration(float64(now) - t.start)
	certain := !t.isNew && age > -time.Minute && age < oldest && value.TTL >= 0 && value.TTL <= kept.longest
	return kept.reading(found, entry, certain)
}

// sethvargoWeek is for how long a key is kept that somebody has given tokens to. Others are kept
// for three periods.
const sethvargoWeek = 7 * 24 * time.Hour

// isInFirstWindow reports whether the first window surely has not ended, of a hash that does
// not tell its period: a key is kept for three periods from each take on, in whole seconds.
func isInFirstWindow(t *ticks, ttl time.Duration, now int64) bool {
	age := time.Duration(float64(now) - t.start)
	wasGivenTokens := ttl+age+clocksDiffer >= sethvargoWeek // then it is kept for a week
	return ttl > 0 && age >= 0 && !wasGivenTokens && age+clocksDiffer < ttl/3
}

// SetRemaining implements [Setter].
func (sethvargo) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	t, err := parseTicks(found)
	switch {
	case err != nil:
		return nil, cannotSet(found, err)
	case t.interval == 0:
		return nil, store.Invalidf("what remains can be set only if the period is known; give it with --limit")
	case remaining < 0 || remaining > int64(t.most):
		return nil, store.Invalidf("%d units cannot remain of a limit of %d", remaining, int64(t.most))
	}
	writes := []Write{{StoreKey: found.StoreKey, Field: "k", Text: strconv.FormatInt(remaining, 10)}}
	if current, _ := t.at(nanoseconds(found.Now)); current.last != t.last {
		// Otherwise the next take would begin this window, with all of its tokens.
		writes = append(writes,
			Write{StoreKey: found.StoreKey, Field: "t", Text: strconv.FormatFloat(current.last, 'f', 0, 64)},
			Write{StoreKey: found.StoreKey, Field: "i", Text: strconv.FormatFloat(t.interval, 'f', 0, 64)})
	}
	return writes, nil
}
