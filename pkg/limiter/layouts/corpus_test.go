package layouts

import (
	"encoding/hex"
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

func aList(storeKey string, ttl time.Duration, members ...string) Value {
	value := Value{StoreKey: storeKey, Type: ListValue, TTL: ttl, Length: int64(len(members))}
	for _, member := range members {
		value.Members = append(value.Members, Member{Name: member})
	}
	return value
}

func aSet(storeKey string, ttl time.Duration, length int64) Value {
	return Value{StoreKey: storeKey, Type: SetValue, TTL: ttl, Length: length}
}

// aSortedSet is a sorted set of scores and members in turns.
func aSortedSet(storeKey string, ttl time.Duration, members ...any) Value {
	value := Value{StoreKey: storeKey, Type: SortedSetValue, TTL: ttl, Length: int64(len(members) / 2)}
	for i := 0; i < len(members); i += 2 {
		score, err := strconv.ParseFloat(fmt.Sprint(members[i]), 64)
		if err != nil {
			panic(err)
		}
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
		"a setting": settings(), "a ranking": rankings(), "a name like a limit's": limitNames(), "another program's": programs(),
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
		text("express-session:"+id, `{"cookie":{"originalMaxAge":null},"views":3}`, oneDay),
		text(":1:django.contrib.sessions.cache"+strings.ToLower(id),
			"\x80\x05\x95\x2a\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\r_auth_user_id"+
				"\x94\x8c\x0242\x94\x8c\x12_auth_user_backend\x94\x8c\x01x\x94u.", 14*oneDay),
		text(":1:django.contrib.sessions.cached_dbabc", "\x80\x05]\x94.", 14*oneDay),
		text("session:2::"+strings.Repeat("9f86d081", 8), "\x04\b{\x06I\"\x0f_csrf_token\x06:\x06EFI\"\x0babc\x06;\x00F", 2*time.Hour),
		text("laravel_database_"+id, `s:98:"a:2:{s:6:"_token";s:40:"x";s:6:"_flash";a:0:{}}";`, 2*time.Hour),
		text("PHPREDIS_SESSION:"+strings.ToLower(id), `user|i:42;cart|a:1:{i:0;s:3:"abc";}`, 24*time.Minute),
		hash("spring:session:sessions:33fdd1b6-b496-4b33-9f7d-df96679d32fe", 35*time.Minute, "creationTime", digits(corpusMilli-60_000),
			"lastAccessedTime", digits(corpusMilli), "maxInactiveInterval", "1800", "sessionAttr:user", "\xac\xed\x00\x05t\x00\x02ab"),
		text("spring:session:sessions:expires:33fdd1b6-b496-4b33-9f7d-df96679d32fe", "", 30*time.Minute),
		aSet("spring:session:expirations:"+digits(corpusMilli+1_800_000), 35*time.Minute, 3),
		hash("session:user:42", time.Hour, "user_id", "42", "ip", "203.0.113.9", "last", digits(corpusSecond), "csrf", "x"),
		text("flask_session:b7e2c9d0-8f5d-4b2a-9a57-1f0f7f1f2b11",
			"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01n\x94K\x03s.", 31*oneDay),
		text("tb:session:9d2f", "42", time.Hour),
		text("jwt:blacklist:"+id, "1", 15*time.Minute),
		text("refresh_token:42", strings.Repeat("a", 64), 30*oneDay),
		text("otp:+4915112345678", "481216", 5*time.Minute),
		text("password_reset:9f86d081884c7d65", "42", time.Hour),
		text("csrf:"+id, id, time.Hour),
		text("login:nonce:"+id, "1", time.Minute),
	}
}

func caches() []Value {
	javaLong, _ := hex.DecodeString("aced00057372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df0200014a000576616c7565")
	return []Value{
		text("rails:views/products/42-20261121120000000000", "\x04\bo: ActiveSupport::Cache::Entry\t:\x0b@value", 12*time.Hour),
		text("cache:v1:users/42", "\x00\x11\x01\x00\x00\x00\x00\x00\xff\xff\xff\xff{\"id\":42}", time.Hour),
		text("laravel_cache:users.count", "i:4711;", time.Hour),
		text("laravel_cache_settings.theme", `s:4:"dark";`, forEver),
		text("laravel_cache:page.views", "4711", time.Hour),
		text("laravel_cache:"+strings.Repeat("5d41402a", 4), "1", time.Hour),
		text(":1:views.decorators.cache.cache_page.idx.GET."+strings.Repeat("0a1b", 8),
			"\x80\x05\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x04page\x94.", 15*time.Minute),
		text(":1:user_count", "4711", 5*time.Minute),
		text(":1:ratio", "\x80\x05\x95\x0a\x00\x00\x00\x00\x00\x00\x00G?\xe0\x00\x00\x00\x00\x00\x00.", 5*time.Minute),
		text(":1:times",
			"\x80\x05\x95\x17\x00\x00\x00\x00\x00\x00\x00]\x94(GA\xda\xc0\x81Q\xd0\x00\x00GA\xda\xc0\x81Q\xa0\x00\x00e.", 5*time.Minute),
		text("users::42", "\xac\xed\x00\x05sr\x00\x10com.example.User", 10*time.Minute),
		text("counts::all", string(javaLong)+"\x00\x00\x00\x00\x00\x00\x12\x67", 10*time.Minute),
		text("products::SimpleKey []", `["java.util.ArrayList",[]]`, 10*time.Minute),
		text("cache:exchange:usd:eur", "1.0842", 10*time.Minute),
		text("weather:berlin", `{"t":7.5}`, 10*time.Minute),
		text("page:/index.html", "<!doctype html><title>x</title>", time.Minute),
		text("etag:/api/users", `"33a64df5"`, time.Minute),
		text("geo:203.0.113.9", "DE", oneDay),
		text("dns:example.com", "203.0.113.9", 5*time.Minute),
		hash("user:42", forEver, "name", "Ada", "email", "ada@example.com", "created", "2026-01-01"),
		hash("product:7", time.Hour, "price", "19.99", "stock", "12"),
		hash("cart:42", 7*oneDay, "sku:1", "2", "sku:9", "1"),
		hash("aspnet:cache:x", time.Hour, "absexp", "638990352000000000", "sldexp", "-1", "data", "{}"),
		text("thumb:42", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", oneDay),
		text("proto:42", "\x00\x00\x00\x01\x00\x00\x00\x02\x08\x96\x01", time.Hour),
		text("avro:42", "\x00\x00\x00\x00\x01\x06foo", time.Hour),
		text("postcard:42", "\x02\x07cart_id\x01\x04user\x0242", time.Hour),
		text("\x02\x07cart_id\x00", "hello", time.Hour),
		text("msgpack:42", "\x82\xa4last\xce\x6b\x00\x00\x00\xa6tokens\x05", time.Hour),
	}
}

func queues() []Value {
	return []Value{
		aList("queue:default", forEver, `{"class":"MailJob","args":[42],"jid":"b4a577edbccf1d805744efa9","created_at":1795262400.1}`),
		aSet("queues", forEver, 3),
		aSet("processes", forEver, 2),
		hash("host:1234:abcd", time.Minute, "info", "{}", "busy", "3", "beat", "1795262400.0523", "rtt_us", "120", "quiet",
			"false", "rss", "90112"),
		aSortedSet("retry", forEver, 1795262430.25, `{"class":"MailJob"}`, 1795262490.5, `{"class":"OtherJob"}`),
		aSortedSet("schedule", forEver, 1795262460.1, `{"jid":"x"}`),
		aSortedSet("dead", forEver, 1795000000.1, `{"jid":"y"}`),
		text("stat:processed", "4711", forEver),
		text("stat:failed:2026-11-21", "12", 180*oneDay),
		hash("j|20261121|12:0", 8*time.Hour, "MailJob|p", "12", "MailJob|ms", "4711"),
		text("bull:mail:id", "4711", forEver),
		hash("bull:mail:4711", forEver, "name", "send", "data", "{}", "opts", "{}", "timestamp", digits(corpusMilli),
			"delay", "0", "priority", "0"),
		aSortedSet("bull:mail:delayed", forEver, 7353392537600000, "4711", 7353392537600100, "4712"),
		aList("bull:mail:wait", forEver, "4711", "4712"),
		aList("bull:mail:active", forEver, "4710"),
		hash("bull:mail:meta", forEver, "opts.maxLenEvents", "10000", "version", "bullmq:5.1.0"),
		text("bull:mail:4711:lock", "b7e2c9d0-8f5d-4b2a-9a57-1f0f7f1f2b11", 30*time.Second),
		text("bull:mail:stalled-check", digits(corpusMilli), 30*time.Second),
		aSortedSet("bull:mail:completed", forEver, corpusMilli-5000, "4700", corpusMilli-1000, "4701"),
		Value{StoreKey: "bull:mail:events", Type: "stream", Length: 12, TTL: forEver},
		aList("celery", forEver, `{"body":"W10=","headers":{"task":"add","id":"x"}}`),
		aSet("_kombu.binding.celery", forEver, 1),
		text("celery-task-meta-33fdd1b6-b496-4b33-9f7d-df96679d32fe", `{"status":"SUCCESS","result":3}`, oneDay),
		hash("unacked", forEver, "33fdd1b6", `[{"body":"W10="},"","celery"]`),
		aSortedSet("unacked_index", forEver, 1795262400.25, "33fdd1b6-b496", 1795262401.5, "4b33-9f7d"),
		text("unacked_mutex", "x", 5*time.Minute),
		aList("resque:queue:mail", forEver, `{"class":"Mail","args":[1]}`),
		text("resque:stat:processed", "4711", forEver),
		text("resque:worker:host:1234:*:started", "2026-11-21T12:00:00Z", forEver),
		hash("rq:job:33fdd1b6", 500*time.Second, "status", "finished", "created_at", "2026-11-21T12:00:00Z", "timeout", "180"),
		aSortedSet("rq:finished:default", forEver, corpusSecond+500, "33fdd1b6"),
		aList("laravel_database_queues:default", forEver, `{"uuid":"x","attempts":0}`),
		aSortedSet("laravel_database_queues:default:reserved", forEver, corpusSecond+90, `{"uuid":"x","attempts":1}`),
	}
}

func locks() []Value {
	const id = "33fdd1b6-b496-4b33-9f7d-df96679d32fe"
	return []Value{
		text("resource:42", "b1f4c2a0d9e8", 10*time.Second),
		text("lock:invoice:42", id, 30*time.Second),
		text("lock:cron", "1", time.Minute),
		text("lock:cron:next", digits(corpusSecond+60), time.Minute),
		text("lock:deadline", digits(corpusMilli+30_000), 30*time.Second),
		hash("myLock", 30*time.Second, id+":1", "1"),
		hash("{myLock}:fair", 30*time.Second, id+":47", "2"),
		aList("redisson_lock_queue:{myLock}", forEver, id+":48"),
		aSortedSet("redisson_lock_timeout:{myLock}", forEver, corpusMilli+5000, id+":48"),
		hash("mySemaphore:permits", forEver, id, "1"),
		text("laravel_cache:framework/schedule-33fd", "1", 24*time.Minute),
		text("laravel_database_laravel_cache_:lock:import", "x7GhPqRs", 10*time.Second),
		text("shedlock:default:report", "ADDED:2026-11-21T12:00:00Z", 10*time.Minute),
		text("leader:scheduler", "host-1", 15*time.Second),
		text("sidekiq:cron:lock:2026-11-21", "1", oneDay),
		text("uniquejobs:9f86d081", "b4a577edbccf1d805744efa9", time.Hour),
		hash("lease:42", 30*time.Second, "owner", "host-1", "until", digits(corpusMilli+30_000)),
		text("mutex:42:fence", "17", forEver),
		hash("bucket:lock", time.Minute, "tokens", "3", "last", "x"),
	}
}

func counters() []Value {
	return []Value{
		text("views:article:42", "4711", forEver),
		text("visits:2026-11-21", "4711", 2*oneDay),
		text("visits:2026-11-21:12", "17", 2*time.Hour),
		text("user:42:unread", "3", forEver),
		text("failed_logins:42", "2", 15*time.Minute),
		text("attempts:203.0.113.9", "2", 15*time.Minute),
		text("sms:sent:42", "1", time.Minute),
		text("seq:invoice", "1795262400", forEver),
		text("next_id", "9223372036854775807", forEver),
		text("balance:42", "-17", forEver),
		text("temperature", "-3.5", time.Minute),
		text("hits:60:"+digits(corpusSecond/60), "12", time.Minute),
		text("stats:"+digits(corpusSecond/3600), "12", 2*time.Hour),
		text("online:count", "1", 5*time.Second),
		text("downloads:1.2.3", "10", forEver),
		text("sum:42", "1e9", forEver),
		text("big", strings.Repeat("9", 30), forEver),
		hash("metrics:2026-11-21", oneDay, "get", "12", "post", "3"),
		hash("poll:7", forEver, "yes", "12", "no", "3"),
		hash("job:progress", time.Hour, "count", "10", "start", "a", "end", "z"),
		hash("range:7", time.Hour, "start", "1", "end", "10"),
		hash("order:7", time.Hour, "s", "1", "t", "x", "k", "9"),
		text("hll:visitors", "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80", forEver),
		text("bitmap:2026-11-21", "\x00\x00\x00\x01\x00\x00\x00\x01\x80", 30*oneDay),
	}
}

func times() []Value {
	return []Value{
		text("last_seen:42", digits(corpusNano-90_000_000_000), forEver),
		text("last_seen:43", digits(corpusNano-90_000_000_000), oneDay),
		text("last_login:42", digits(corpusNano-3_000_000_000), 30*oneDay),
		text("started_at", digits(corpusNano-86_400_000_000_000), forEver),
		text("next_run", digits(corpusNano+3_600_000_000_000), forEver),
		text("next_run:daily", digits(corpusNano+3_600_000_000_000), 2*oneDay),
		text("heartbeat:host-1", digits(corpusNano-500_000_000), 30*time.Second),
		text("heartbeat:host-2", digits(corpusMilli-500), 30*time.Second),
		text("heartbeat:host-3", digits(corpusSecond-1), 30*time.Second),
		text("heartbeat:host-4", "1795262399.5", 30*time.Second),
		text("updated_at:7", digits(corpusMilli), time.Hour),
		text("expires_at:7", digits(corpusMilli+3_600_000), time.Hour),
		text("expires_at:8", digits(corpusSecond+3600), time.Hour),
		text("created:7", "1483228800", forEver),
		text("uptime", "312033600.25", forEver),
		text("snowflake:last", "1859512345678901248", forEver),
		text("cursor:ns", digits(corpusNano-10), 10*time.Minute),
		text("offset:topic:0", "1795262400000000000", forEver),
		hash("job:last", forEver, "last", digits(corpusSecond), "status", "ok"),
		hash("sync:state", forEver, "last", "1795262400000000", "token", "abc"),
		hash("oauth:42", time.Hour, "tokens", "2", "last_login", digits(corpusSecond)),
	}
}

func settings() []Value {
	return []Value{
		text("feature:new-checkout", "true", forEver),
		text("feature:dark-mode", "1", forEver),
		text("flag:rollout", "25", forEver),
		text("flags", `{"a":true,"b":false}`, forEver),
		hash("features", forEver, "new-checkout", "on", "dark-mode", "off"),
		hash("flipper_features", forEver, "boolean", "true", "percentage_of_time", "25"),
		aSet("flipper_features_set", forEver, 3),
		text("config:version", "42", forEver),
		text("app:config", "port: 8080\n", forEver),
		text("maintenance", "0", forEver),
		text("deploy:sha", "d7f1eef5", forEver),
		text("unleash:toggles", "[]", 15*time.Second),
	}
}

func rankings() []Value {
	return []Value{
		aSortedSet("leaderboard", forEver, 100, "ada", 250, "bob", 4711, "eve"),
		aSortedSet("leaderboard:2026-W47", 8*oneDay, 10.5, "ada", 12, "bob"),
		aSortedSet("trending", time.Hour, 0.25, "a", 0.75, "b"),
		aSortedSet("timeline:42", forEver, corpusMilli-1000, "post:1", corpusMilli-500, "post:2"),
		aSortedSet("timeline:43", 7*oneDay, corpusSecond-100, "post:1", corpusSecond-5, "post:2"),
		aSortedSet("online", forEver, corpusSecond-3, "user:42", corpusSecond, "user:43"),
		aSortedSet("recent:searches:42", 30*oneDay, corpusSecond-3, "shoes", corpusSecond, "socks"),
		aSortedSet("presence:room:1", time.Minute, corpusMilli-3000, "42", corpusMilli, "43"),
		aSortedSet("prices", forEver, 19.99, "7", 5, "8"),
		aSortedSet("geo:shops", forEver, 3663832614298053, "berlin", 3673983964876493, "hamburg"),
		aSortedSet("delayed:mail", forEver, corpusMilli+60_000, "job:1"),
		aSortedSet("autocomplete", forEver, 0, "ada", 0, "bob"),
		aList("recent:42", oneDay, "7", "8", "9"),
		aList("temperatures", time.Hour, "7.5", "7.25", "8"),
		aList("log", forEver, "2026-11-21 started", "2026-11-21 stopped"),
		aList("events:times", forEver, digits(corpusSecond-5), digits(corpusSecond)),
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

// programs are of others that keep much in Redis.
func programs() []Value {
	return []Value{
		hash("_mon:celery", forEver, "a", "1"),
		text("wp_:options:alloptions", "a:1:{}", forEver),
		text("zc:k:b7e_CONFIG", "x\x9c\x03\x00\x00\x00\x00\x01", forEver),
		hash("magento:zc:ti", forEver, "d", "x", "t", "1", "m", digits(corpusSecond), "i", "0"),
		text("gitlab:cache:gitlab:exclusive_lease:x", "33fdd1b6", time.Minute),
		text("cache:gitlab:application_settings:18.1", "\x04\bo", time.Minute),
		aList("logstash", forEver, `{"message":"x"}`),
		hash("ring:backends", 30*time.Second, "a:8080", "1", "b:8080", "1"),
		text("mastodon:feed:home:1:reblogs", "1", forEver),
		aSortedSet("feed:home:1", forEver, 115586000000000000, "115586000000000000"),
		text("kong_db_cache:plugins:1", "{}", time.Hour),
		text("apikey-abc", `{"rate":10,"per":60,"quota_max":-1}`, forEver),
		text("nuxt:payload:/", "[]", time.Minute),
		text("next:cache:/", `{"lastModified":1795262400000}`, time.Hour),
		text("prefix\x00binary\xff", "\x00\x01\x02", time.Hour),
	}
}

// ownKeys are limitctl's own, of every algorithm, and what it keeps with them.
func ownKeys() (own []Value) {
	for _, algorithm := range store.Algorithms() {
		limit, err := store.Limit{Algorithm: algorithm, Count: 10, Period: time.Minute}.Normalize()
		if err != nil {
			panic(err)
		}
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
			aList(prefix+"!{audit}", forEver, `{"at":"2026-11-21T12:00:00Z"}`),
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
	if len(all) < 250 {
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
