package layouts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The corpus is what databases hold beside limits: keys, types, values and expiries as programs
// write them that limit nothing, and keys of limitctl itself. No layout may claim any of it.

// corpusNow is when the corpus was written: 2026-11-21, noon.
const corpusNow store.Instant = 1_795_262_400_000_000

const (
	corpusSecond = int64(corpusNow / 1_000_000)
	corpusMilli  = int64(corpusNow / 1000)
	corpusNano   = int64(corpusNow) * 1000
	forEver      = time.Duration(-1)
	oneDay       = 24 * time.Hour
)

// lookAlike is one key, with what is under it.
type lookAlike struct {
	what string // what wrote it
	Value
}

func aSet(storeKey string, ttl time.Duration, length int64) Value {
	return Value{StoreKey: storeKey, Type: SetValue, TTL: ttl, Length: length}
}

// aSortedSet is a sorted set of scores and members in turns.
func aSortedSet(storeKey string, ttl time.Duration, members ...any) Value {
	value := Value{StoreKey: storeKey, Type: SortedSetValue, TTL: ttl, Length: int64(len(members) / 2)}
	for i := 0; i < len(members); i += 2 {
		score := must(strconv.ParseFloat(fmt.Sprint(members[i]), 64))
		value.Members = append(value.Members, Member{Name: fmt.Sprint(members[i+1]), Score: score})
	}
	slices.SortStableFunc(value.Members, func(a, b Member) int {
		if a.Score < b.Score {
			return -1
		}
		return 1
	})
	return value
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }

// corpus returns all of it.
func corpus() (all []lookAlike) {
	for what, values := range map[string][]Value{
		"a session": sessions(), "a cache": caches(), "a queue": queues(), "a lock": locks(), "a counter": counters(), "a time": times(),
		"a setting": settings(), "a ranking": rankings(), "a name like a limit's": limitNames(),
		"limitctl's own": ownKeys(),
	} {
		for _, value := range values {
			all = append(all, lookAlike{what, value})
		}
	}
	return all
}

func sessions() []Value {
	const id = "Zk3yNfUqQ1m8sVtXrB2LwA7cJd5Ge0Hh"
	return []Value{
		text("sess:"+id,
			`{"cookie":{"originalMaxAge":86400000,"expires":"2026-11-22T12:00:00.000Z","httpOnly":true,"path":"/"},"user":42}`, oneDay),
		text(":1:django.contrib.sessions.cached_dbabc", "\x80\x05]\x94.", 14*oneDay),
		text("PHPREDIS_SESSION:"+strings.ToLower(id), `user|i:42;cart|a:1:{i:0;s:3:"abc";}`, 24*time.Minute),
		aSet("spring:session:expirations:"+digits(corpusMilli+1_800_000), 35*time.Minute, 3),
		text("tb:session:9d2f", "42", time.Hour),
		text("otp:+4915112345678", "481216", 5*time.Minute),
		text("login:nonce:"+id, "1", time.Minute),
	}
}

func caches() []Value {
	return []Value{
		hash("_mon:celery", forEver, "a", "1"),
		hash("magento:zc:ti", forEver, "d", "x", "t", "1", "m", digits(corpusSecond), "i", "0"),
		list("logstash", forEver, `{"message":"x"}`),
		aSortedSet("feed:home:1", forEver, 115586000000000000, "115586000000000000"),
		text("nuxt:payload:/", "[]", time.Minute),
		text("rails:views/products/42-20261121120000000000", "\x04\bo: ActiveSupport::Cache::Entry\t:\x0b@value", 12*time.Hour),
		text("laravel_cache_settings.theme", `s:4:"dark";`, forEver),
		text(":1:views.decorators.cache.cache_page.idx.GET."+strings.Repeat("0a1b", 8),
			"\x80\x05\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x04page\x94.", 15*time.Minute),
		text(":1:times",
			"\x80\x05\x95\x17\x00\x00\x00\x00\x00\x00\x00]\x94(GA\xda\xc0\x81Q\xd0\x00\x00GA\xda\xc0\x81Q\xa0\x00\x00e.", 5*time.Minute),
		text("products::SimpleKey []", `["java.util.ArrayList",[]]`, 10*time.Minute),
		text("page:/index.html", "<!doctype html><title>x</title>", time.Minute),
		text("dns:example.com", "203.0.113.9", 5*time.Minute),
		hash("cart:42", 7*oneDay, "sku:1", "2", "sku:9", "1"),
		text("proto:42", "\x00\x00\x00\x01\x00\x00\x00\x02\x08\x96\x01", time.Hour),
		text("\x02\x07cart_id\x00", "hello", time.Hour),
	}
}

func queues() []Value {
	return []Value{
		list("queue:default", forEver, `{"class":"MailJob","args":[42],"jid":"b4a577edbccf1d805744efa9","created_at":1795262400.1}`),
		hash("host:1234:abcd", time.Minute, "info", "{}", "busy", "3", "beat", "1795262400.0523", "rtt_us", "120", "quiet",
			"false", "rss", "90112"),
		aSortedSet("dead", forEver, 1795000000.1, `{"jid":"y"}`),
		hash("j|20261121|12:0", 8*time.Hour, "MailJob|p", "12", "MailJob|ms", "4711"),
		aSortedSet("bull:mail:delayed", forEver, 7353392537600000, "4711", 7353392537600100, "4712"),
		hash("bull:mail:meta", forEver, "opts.maxLenEvents", "10000", "version", "bullmq:5.1.0"),
		aSortedSet("bull:mail:completed", forEver, corpusMilli-5000, "4700", corpusMilli-1000, "4701"),
		aSet("_kombu.binding.celery", forEver, 1),
		aSortedSet("unacked_index", forEver, 1795262400.25, "33fdd1b6-b496", 1795262401.5, "4b33-9f7d"),
		text("resque:stat:processed", "4711", forEver),
		aSortedSet("rq:finished:default", forEver, corpusSecond+500, "33fdd1b6"),
	}
}

func locks() []Value {
	const id = "33fdd1b6-b496-4b33-9f7d-df96679d32fe"
	return []Value{
		text("resource:42", "b1f4c2a0d9e8", 10*time.Second),
		text("lock:cron:next", digits(corpusSecond+60), time.Minute),
		hash("{myLock}:fair", 30*time.Second, id+":47", "2"),
		hash("mySemaphore:permits", forEver, id, "1"),
		text("shedlock:default:report", "ADDED:2026-11-21T12:00:00Z", 10*time.Minute),
		text("uniquejobs:9f86d081", "b4a577edbccf1d805744efa9", time.Hour),
		hash("bucket:lock", time.Minute, "tokens", "3", "last", "x"),
	}
}

func counters() []Value {
	return []Value{
		text("views:article:42", "4711", forEver),
		text("user:42:unread", "3", forEver),
		text("sms:sent:42", "1", time.Minute),
		text("balance:42", "-17", forEver),
		text("stats:"+digits(corpusSecond/3600), "12", 2*time.Hour),
		text("sum:42", "1e9", forEver),
		hash("poll:7", forEver, "yes", "12", "no", "3"),
		hash("order:7", time.Hour, "s", "1", "t", "x", "k", "9"),
	}
}

func times() []Value {
	return []Value{
		text("last_seen:42", digits(corpusNano-90_000_000_000), forEver),
		text("started_at", digits(corpusNano-86_400_000_000_000), forEver),
		text("heartbeat:host-1", digits(corpusNano-500_000_000), 30*time.Second),
		text("heartbeat:host-4", "1795262399.5", 30*time.Second),
		text("expires_at:8", digits(corpusSecond+3600), time.Hour),
		text("snowflake:last", "1859512345678901248", forEver),
		hash("job:last", forEver, "last", digits(corpusSecond), "status", "ok"),
	}
}

func settings() []Value {
	return []Value{
		text("feature:new-checkout", "true", forEver),
		text("flags", `{"a":true,"b":false}`, forEver),
		aSet("flipper_features_set", forEver, 3),
		text("maintenance", "0", forEver),
	}
}

func rankings() []Value {
	return []Value{
		aSortedSet("leaderboard", forEver, 100, "ada", 250, "bob", 4711, "eve"),
		aSortedSet("timeline:42", forEver, corpusMilli-1000, "post:1", corpusMilli-500, "post:2"),
		aSortedSet("recent:searches:42", 30*oneDay, corpusSecond-3, "shoes", corpusSecond, "socks"),
		aSortedSet("geo:shops", forEver, 3663832614298053, "berlin", 3673983964876493, "hamburg"),
		list("recent:42", oneDay, "7", "8", "9"),
		list("events:times", forEver, digits(corpusSecond-5), digits(corpusSecond)),
	}
}

// limitNames are of programs that limit something or exchange something, but are no limits.
func limitNames() []Value {
	return []Value{
		text("rate:usd:eur", "1.0842", 10*time.Minute),
		text("rate:eur", "0.92", forEver),
		text("rate:btc", "312033600.5", 10*time.Minute),
		text("rate:vat:de", "19", forEver),
		hash("rate:usd", 10*time.Minute, "eur", "0.92", "gbp", "0.78"),
		hash("rate:room@hotel:12", oneDay, "last", "99", "price", "120"),
		hash("rate:desk@file:7", forEver, "tokens", "abc", "last", "x"),
		text("rate:limits", `{"default":"10/1m"}`, forEver),
		text("rates:usd:eur", "1.0842", 10*time.Minute),
		text("limiter:config", `{"points":10,"duration":60}`, forEver),
		text("limiter:enabled", "1", forEver),
		text("limiter:version", "3", forEver),
		hash("limiter:config:login", forEver, "points", "10", "duration", "60"),
		text("rl:version", "3", forEver),
		text("rl:enabled", "true", forEver),
		text("rl:config", "10/1m", forEver),
		text("rl:whitelist", "203.0.113.9", forEver),
		text("rl:203.0.113.9", "banned", oneDay),
		aSet("rl:blocked", forEver, 4),
		hash("rl:stats", forEver, "allowed", "10", "denied", "3"),
		text("rlflx:config", "{}", forEver),
		hash("rlflx:x", time.Minute, "points", "1"),
		text("rate-limit:enabled", "1", forEver),
		text("rate-limit-config", "{}", forEver),
		aSortedSet("rate-limit-top", forEver, 12, "203.0.113.9", 3, "203.0.113.10"),
		text("quota-default", "unlimited", forEver),
		text("quota-plan-free", "1000", forEver),
		text("throttle:config", "on", forEver),
		text(":1:throttle_settings", "\x80\x05\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01n\x94K\x03s.", time.Hour),
		text("ratelimit:enabled", "1", forEver),
		text("ratelimit:report:2026:11:day", "1", oneDay),
		text("LIMITS:CONFIG", "{}", forEver),
		aSet("LIMITS:all", forEver, 3),
		text("request_rate_limiter.config", "{}", forEver),
		text("rack::attack:allow2ban:config", "{}", forEver),
		text("rack::attack:enabled", "1", forEver),
		text("application_rate_limiter:settings", "{}", forEver),
		text("labkit:rl:enabled", "1", forEver),
		text("@upstash/ratelimit:version", "2.0.8", forEver),
		hash("@upstash/ratelimit:events", forEver, "success", "10"),
		text("plugin-limit-count-config", "{}", forEver),
		text("limit_req:config", "rate=10", forEver),
		aSet("limit_conn:peers", forEver, 3),
		text("namespace:{shop},config", "{}", forEver),
		text("{room:12}:hits", "soldout", time.Hour),
		text("3:config", "10", forEver),
		text("5:minutes", "300", oneDay),
		text("1:2", "3", time.Hour),
		text("domain_path_1795262400", "hello", time.Hour),
	}
}

// ownKeys are limitctl's own, of every algorithm, and what it keeps with them.
func ownKeys() (own []Value) {
	for _, algorithm := range store.Algorithms() {
		limit := must(store.Limit{Algorithm: algorithm, Count: 10, Period: time.Minute}.Normalize())
		var s store.State
		s.Charge(limit, 3, corpusNow-1_000_000)
		for _, prefix := range []string{"rl", "rate", "limiter", "rlflx", "ratelimit", "myapp", "LIMITS", "3"} {
			storeKey := admin.OwnLayout(prefix).StoreKey(store.Key{Subject: "203.0.113.9", Name: limit.DefaultName()})
			own = append(own, text(storeKey, string(s.AppendRecord(nil)), time.Minute))
		}
	}
	for _, prefix := range []string{"rl", "rate", "limiter"} {
		own = append(own,
			text(prefix+"!id", "9f86d081884c7d659a2feaa0c55ad015", forEver),
			list(prefix+"!{audit}", forEver, `{"at":"2026-11-21T12:00:00Z"}`),
			text(prefix+"!{override}", "RO\x01\x00\x00\x00\x01", forEver),
			text(prefix+"!{override}:3f2a", "RV\x01\x00\x00\x00\x01", time.Hour),
			text(prefix+"!{user:42}:token:17", "RT\x01\x00\x00\x00\x01", time.Hour),
			text(prefix+"!token:1", "17", time.Hour),
			hash(prefix+"!{denials:"+digits(corpusSecond/60)+"}", time.Hour, "\x00\x07user:42login", "3"))
	}
	return own
}

// autoSources are what --layout auto looks by.
func autoSources() (sources Sources) {
	for _, layout := range All() {
		sources = append(sources, Source{Layout: layout})
	}
	return sources
}

func TestNothingIsClaimedThatIsNotALimit(t *testing.T) {
	all := corpus()
	if len(all) < 90 {
		t.Errorf("the corpus has only %d values", len(all))
	}
	sources, everything := autoSources(), &admin.Query{Subjects: pattern(t, "*")}
	for i := range all {
		value := &all[i].Value
		look := sources.Look(value.StoreKey, everything)
		if look == nil {
			continue
		}
		look.StoreKeys(corpusNow)
		entries, _, err := look.Judge(func(storeKey string) Value {
			for j := range all {
				if all[j].StoreKey == storeKey {
					return all[j].Value
				}
			}
			return Value{StoreKey: storeKey, Type: NoValue}
		})
		for j := range entries {
			t.Errorf("%s, %q, is claimed by %s: %+v", all[i].what, value.StoreKey, entries[j].Layout, entries[j])
		}
		if all[i].what == "limitctl's own" && err != nil {
			t.Errorf("of limitctl's own key %q it says %v", value.StoreKey, err)
		}
	}
}
