package layouts

// vectorTexts are what limiters are known to write, and what we say of it, by layout. After a line "key", the store
// key and what Match makes of it, and one "now", the time in µs, each line is a case: its name, the limit that an
// operator said, the values, and what is said (see says). A value is its type, unless it is a string, its time to live
// ("-" for none) and its text or members, and before all of it "under" with its store key, if that is not the one of
// the line "key", which is "^". Words in capitals stand for others.
var vectorTexts = map[string]string{
	"apisix": `
key plugin-limit-count:v1:/apisix/routes/1:1626:2001:db8::1 = apisix/limit-count/routes/1 of 2001:db8::1
now 1795294335000000
used | 10/1m | 20s 3 | sure: fixed-window:10/1m first allowed used 3 left 7 reset 20s! retry 0s!
denied ones count | 10/1m | 20s 13 | sure: fixed-window:10/1m first used 13 left 0 reset 20s! retry 20s!
without an expiry APISIX begins anew | 10/1m | - 13 | sure: fixed-window:10/1m first allowed used 0 left 10 reset 0s!
    retry 0s! never-expires!: no expiry, so the key stays although it counts for nothing
a word |  | 20s x | wrong: a string that is not a whole number
key plugin-limit-countgold:203.0.113.9 = apisix/limit-count/gold of 203.0.113.9
what remains, as before 2026 | 10/1m | 20s 7 | sure: fixed-window:10/1m first allowed used 3 left 7 reset 20s! retry 0s!
less than nothing remains, as before 2026 | 10/1m | 20s -2 | sure: fixed-window:10/1m first used 12 left 0 reset 20s!
    retry 20s!
what remains, without the limit |  | 20s 7 | sure: unknown reset 20s!
key plugin-limit-countx:y = apisix/limit-count/x of y
now 1795294331450000
a count of less than any | 1000000000/1ms | 1m -9223372036854775808 | sure: fixed-window:1000000000/1ms first used
    2000000000 left 0 reset 1m0s! retry 1m0s!`,
	"bucket4j": `
key user-42 = bucket4j of ^
now 1795294331450000
three taken |  | - THREE | sure: bucket4j/per-min of user-42 token-bucket:10/1m allowed used 3 left 7 reset 18s +
    bucket4j/100/1h of user-42 token-bucket:100/1h allowed used 3 left 97 reset 1h0m0s
now 1795294338450900
three taken and 7.0009 s later, built |  | 2h THREE | sure: bucket4j/per-min of user-42 token-bucket:10/1m allowed used
    2 left 8 reset 11s + bucket4j/100/1h of user-42 token-bucket:100/1h allowed used 3 left 97 reset 59m53s
now 1795294332450000
negative, built |  | - NEGATIVE | sure: bucket4j/per-min of user-42 token-bucket:10/1m used 14 left 0 reset 1m23s retry
    29s + bucket4j/100/1h of user-42 token-bucket:100/1h used 250 left 0 reset 2h59m59s retry 1h59m59s
now 1795294331450000
kept too short, built |  | 1m THREE | sure: bucket4j/per-min of user-42 token-bucket:10/1m allowed used 3 left 7 reset
    18s + bucket4j/100/1h of user-42 token-bucket:100/1h allowed used 3 left 97 reset 1h0m0s short-ttl: expires before
    its units have come back, so more is let through than the limit allows
cut off |  | - HALF | wrong: not a bucket
a byte more |  | - THREE-AND-MORE | wrong: not a bucket`,
	"counter": `
key rate_limit:203.0.113.9 = counter of ^
now 1795294331450000
three counted | 10/1m | 40s 3 | fixed-window:10/1m first allowed used 3 left 7 reset 40s! retry 0s!
without the limit |  | 40s 3 | used 3 left 0 reset 40s!
no expiry | 10/1m | - 10 | fixed-window:10/1m first used 10 left 0 reset 1m0s! retry 1m0s! never-expires!: no expiry,
    so it denies for ever`,
	"django-ratelimit": `
key :1:rl:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    = django-ratelimit of 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
three, built | 5/1m | 1m 3 | sure: fixed-window:5/0s allowed used 3 left 2 retry 0s!
denied ones count, built | 5/1m | 1m 8 | sure: fixed-window:5/0s used 8 left 0
a word |  | 1ns x | wrong: a string that is not a whole number`,
	"drf": `
key :1:throttle_user_42 = drf/user of 42
now 1795294536500000
two, pickled by Python | 2/1m | 58.75s TWO | sure: sliding-log:2/1m used 2 left 0 reset 58.75s! retry 58s!
two, pickled in protocol 2 | 2/1m | 58.75s TWO-OLD | sure: sliding-log:2/1m used 2 left 0 reset 58.75s! retry 58s!
one, pickled by Python, the period by the expiry |  | 58.75s ONE | sure: sliding-log:0/1m used 1 left 0 reset 58.75s!
the expiry is of no rate |  | 30s TWO | sure: sliding-log:0/0s unknown
a pickled word |  | 1m \x80\x05\x95\x06\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94. | wrong: not a pickled list of times
a call |  | 1m \x80\x02cos\nsystem\nq\x00U\x02lsq\x01\x85q\x02Rq\x03. | wrong: not a pickled list of times
key :1:throttle_login_burst_203.0.113.9 = drf/login_burst of 203.0.113.9
now 1795294594500000
one has passed | 2/1m | 800ms TWO | sure: sliding-log:2/1m allowed used 1 left 1 reset 750ms!`,
	"envoy": `
key edge_remote_address_203.0.113.9_1795294320 = envoy of edge_remote_address_203.0.113.9
now 1795294331450000
three of a minute | 10/1m | 3m20s 3 | sure: envoy/minute of edge_remote_address_203.0.113.9 fixed-window:10/1m allowed
    used 3 left 7 reset 48.55s! retry 0s!
more than the limit | 10/1m | 3m20s 12 | sure: envoy/minute of edge_remote_address_203.0.113.9 fixed-window:10/1m used
    12 left 0 reset 48.55s! retry 48.55s!
a minute or a second |  | 3m20s 3 | sure: envoy/second-or-minute of edge_remote_address_203.0.113.9 fixed-window:0/0s
    used 3 left 0
kept too long for a second |  | 5m40s 3 | sure: envoy/minute of edge_remote_address_203.0.113.9 fixed-window:0/1m used
    3 left 0 reset 48.55s!
now 1795294391450000
a minute past | 10/1m | 2m20s 3 | sure: envoy/minute@1795294320 of edge_remote_address_203.0.113.9 fixed-window:10/1m
    allowed used 0 left 10 reset 0s! retry 0s!
now 1795294331450000
a word |  | 1m 03 | wrong: a string that is not a whole number
key edge_user_alice_smith_1795291200 = envoy of edge_user_alice_smith
an hour by its expiry |  | 1h 3 | envoy/hour of edge_user_alice_smith fixed-window:0/1h used 3 left 0 reset 7m48.55s!
key edge_generic_key_login_1795294331 = envoy of edge_generic_key_login
a second |  | 1m40s 1 | sure: envoy/second of edge_generic_key_login fixed-window:0/1s used 1 left 0 reset 550ms!
of no unit |  | 2h 1 | wrong: a counter whose window fits no unit`,
	"gcra-ns": `
key api:203.0.113.9 = gcra-ns of ^
now 1795294331450000
one and a quarter taken | 10/1m,burst=5 | 7.5s 1795294338950000000 | token-bucket:10/1m burst 5 allowed used 2 left 3
    reset 7.5s!
without the limit |  | 7s 1795294338950000000 | unknown reset 7.5s!
no expiry |  | - 1795294338950000000 | unknown reset 7.5s! never-expires: no expiry, so the key stays when it counts
    for nothing any more
nothing |  |  | nothing`,
	"kong": `
key ratelimit:NOBODY:NOBODY:203.0.113.9:1795294320000:minute = kong/minute of 203.0.113.9
now 1795294331450000
a minute | 5/1m | 51s 3 | sure: fixed-window:5/1m allowed used 3 left 2 reset 48.55s! retry 0s!
denied ones count | 5/1m | 51s 12 | sure: fixed-window:5/1m used 12 left 0 reset 48.55s! retry 48.55s!
a count alone | 5 | 51s 3 | sure: fixed-window:5/1m allowed used 3 left 2 reset 48.55s! retry 0s!
a limit of another period | 5/1h | 51s 3 | sure: fixed-window:0/1m used 3 left 0 reset 48.55s!
now 1795294391450000
a minute past, kept for ever | 5/1m | - 9 | sure: kong/minute@1795294320 of 203.0.113.9 fixed-window:5/1m allowed used
    0 left 5 reset 0s! retry 0s! never-expires!: no expiry, so the key stays although it counts for nothing
    (Kong/kong#5763)
now 1795294331450000
an expiry in ms |  | 2562047h47m16.854775807s 9 | sure: fixed-window:0/1m used 9 left 0 reset 48.55s! absurd-ttl: an
    expiry that looks like milliseconds given as seconds, so the key stays when it counts for nothing any more
    (Kong/kong#14995)
a hash |  | hash 1m a 1 | wrong: a hash, not a string
key ratelimit:ROUTE:NOBODY:2001:db8::1:1795294800000:hour = kong/hour/ROUTE of 2001:db8::1
now 1795296000000000
an IPv6 address, of a route |  | 1h 1 | sure: fixed-window:0/1h used 1 left 0 reset 40m0s!
key ratelimit:ROUTE:SERVICE:/v1/a:b:1793491200000:month = kong/month/ROUTE/SERVICE of /v1/a:b
now 1795294331450000
a path in November, of a route and a service, let go of before its end | 100/31d | 48h 100 | sure: fixed-window:100/30d
    used 100 left 0 reset 48h0m0s! retry 48h0m0s!
key response-ratelimit:NOBODY:NOBODY:alice:1795294320000:video:hd:minute = kong/video:hd/minute of alice
a limit by the response |  | 1m 4 | sure: fixed-window:0/1m used 4 left 0 reset 48.55s!`,
	"laravel": `
key laravel_database_laravel_cache_:SHA1 = laravel of SHA1
now 1795294331450000
three attempts | 10/1m | 40.1s 3; under ^:timer 40.1s 1795294371 | sure: fixed-window:10/1m first allowed used 3 left 7
    reset 40.1s! retry 0s!
a counter at the limit whose timer is gone | 10/1m | 5s 10 | fixed-window:10/1m first allowed used 0 left 10 reset 0s!
    retry 0s!
a counter below the limit whose timer is gone | 10/1m | 5s 9 | fixed-window:10/1m first allowed used 9 left 1 reset 5s!
    retry 0s!
a timer that stays | 10/1m | 5s 10; under ^:timer - 1795294371 | fixed-window:10/1m first used 10 left 0
    never-expires!: no expiry, so it denies for ever
a set |  | set 1m  | wrong: a set, not a string or hash
key laravel_database_laravel_cache_:SHA1:timer = laravel of SHA1
all attempts | 10/1m | under laravel_database_laravel_cache_:SHA1 41s 10; 40s 1795294371 | sure: fixed-window:10/1m
    first used 10 left 0 reset 40s! retry 40s!
a timer alone |  | 1m 1795294371 | nothing
key d41d8cd98f00b204e9800998ecf8427e = laravel of ^
MD5, and no mark of a cache |  | 1m 3 | used 3 left 0 reset 1m0s!
key app_cache_:login|203.0.113.9 = laravel of ^
a name that is not hashed |  | 1m 3 | used 3 left 0 reset 1m0s!
key laravel_database_SHA1 = laravel of SHA1
Redis::throttle | 10/1m | hash 1m50s start 1795294321 end 1795294381 count 10 | sure: fixed-window:10/1m first used 10
    left 0 reset 49.55s! retry 49.55s!
Redis::throttle, over | 10/1m | hash 30s start 1795294241 end 1795294301 count 10 | sure: fixed-window:10/1m first
    allowed used 0 left 10 reset 0s! retry 0s!
another hash |  | hash 1m start 1 end 2 | wrong: a hash without the numbers start, end and count alone
another hash of numbers |  | hash 1m start 9 end 2 count 1 | wrong: a hash whose start and end are not times of a window
key laravel_database_{SHA1} = laravel of SHA1
Redis::throttle, with braces and without the count |  | hash 1m50s start 1795294321 end 1795294381 count 4 | sure:
    fixed-window:0/1m first used 4 left 0 reset 49.55s!`,
	"limits": `
key LIMITS:LIMITER/1.2.3.4/index/10/1/minute = limits/10/1/minute of 1.2.3.4/index
now 1795294536000000
fixed window |  | 55s 1 | sure: fixed-window:10/1m first allowed used 1 left 9 reset 55s! retry 0s!
fixed window, denied, and another limit said | 7/1h | 55s 14 | sure: fixed-window:10/1m first used 14 left 0 reset 55s!
    retry 55s!
fixed window without an expiry |  | - 14 | sure: fixed-window:10/1m first used 14 left 0 never-expires!: no expiry, so
    it denies for ever (alisaifee/limits#15)
moving window |  | list 59s 1795294535.1287119 1795294535.1287119 | sure: sliding-log:10/1m allowed used 2 left 8 reset
    59.128712s
moving window of words |  | list 59s now | wrong: a list with a member that is not a time
a hash |  | hash 1m a b | wrong: a hash, not a string or list
key LIMITER/1.2.3.4/index/10/1/minute = limits/10/1/minute of 1.2.3.4/index
version 2, which has no prefix |  | 55s 1 | sure: fixed-window:10/1m first allowed used 1 left 9 reset 55s! retry 0s!
key mine/1.2.3.4/index/10/1/minute = limits/10/1/minute of 1.2.3.4/index
another namespace without a prefix |  | 55s 1 | fixed-window:10/1m first allowed used 1 left 9 reset 55s! retry 0s!
key LIMITS:LIMITER/a/b//5/2/year = limits/5/2/year of a/b/
a year, and a slash in the identifier |  | 1h 1 | sure: fixed-window:5/720d first allowed used 1 left 4 reset 1h0m0s!
    retry 0s!
key LIMITS:LIMITER/a/3/1/minute = limits/3/1/minute of a
moving window, full |  | list 59s 1795294530 1795294520 1795294500 1795294400 | sure: sliding-log:3/1m used 3 left 0
    reset 24s retry 24.000001s
moving window, the oldest is out of it |  | list 59s 1795294530 1795294520 1795294475 | sure: sliding-log:3/1m allowed
    used 2 left 1 reset 44s
key LIMITS:{LIMITER/1.2.3.4/index/10/1/minute} = limits/10/1/minute of 1.2.3.4/index
sliding window |  | 1m30s 4; under ^/-1 30s 9 | sure: sliding-counter:10/1m allowed used 8 left 2 reset 3.333333s!
sliding window, this one is full |  | 1m30s 10 | sure: sliding-counter:10/1m used 10 left 0 reset 30s! retry 36s
sliding window, this one is the previous one by now |  | 30s 10; under ^/-1 1s 7 | sure: sliding-counter:10/1m allowed
    used 5 left 5 reset 0s!
key LIMITS:{LIMITER/1.2.3.4/index/10/1/minute}/-1 = limits/10/1/minute of 1.2.3.4/index
sliding window, the previous one weighs too much |  | under LIMITS:{LIMITER/1.2.3.4/index/10/1/minute} 1m30s 6; 30s 9 |
    sure: sliding-counter:10/1m used 10 left 0 reset 3.333333s! retry 10s
key LIMITS:{LIMITER/a/b/9000000000000000000/70/year} = limits/9000000000000000000/70/year of a/b
now 1795294331450000
a great count | 1000000000/1ms | 1h 9000000000000000000 | sure: sliding-counter:9000000000000000000/25200d allowed used
    14880952380952 left 8999985119047619048 reset 0s!`,
	"nestjs": `
key {TRACKER:default}:hits = nestjs/default of TRACKER
two hits | 10/1m | 30s 2 | sure: fixed-window:10/1m first allowed used 2 left 8 reset 30s! retry 0s!
blocked | 10/1m | 20s 11; under {TRACKER:default}:blocked 50s 1 | sure: fixed-window:10/1m first used 11 left 0 reset
    50s! retry 50s!
a list |  | list 1m 1 | wrong: a list, not a string
key {TRACKER:default}:blocked = nestjs/default of TRACKER
a short block, and again | 10/1m | under {TRACKER:default}:hits 20s 11; 5s 1 | sure: fixed-window:10/1m first used 11
    left 0 reset 20s! retry 20s!
the block alone | 10/1m | 5s 1 | sure: fixed-window:10/1m first used 10 left 0 reset 5s! retry 5s!
the block alone, without the limit |  | 5s 1 | sure: unknown reset 5s! retry 5s!
a block without an expiry | 10/1m | under {TRACKER:default}:hits 20s 11; - 1 | sure: fixed-window:10/1m first allowed
    used 0 left 10 reset 0s! retry 0s! never-expires!: no expiry, so the key stays although it counts for nothing
key {user:42:login}:hits = nestjs/login of user:42
an own key |  | 30s 2 | used 2 left 0 reset 30s!`,
	"rack-attack": `
key rack::attack:29921572:req/ip:203.0.113.9 = rack-attack of req/ip:203.0.113.9
now 1795294331450000
five | 10/1m | 49s 5 | sure: fixed-window:10/1m allowed used 5 left 5 reset 48.55s! retry 0s!
too many | 10/1m | 49s 13 | sure: fixed-window:10/1m used 13 left 0 reset 48.55s! retry 48.55s!
the period of the number |  | 49s 5 | sure: fixed-window:0/1m used 5 left 0 reset 48.55s!
another limit was said | 3/1h | 49s 5 | sure: fixed-window:0/1m used 5 left 0 reset 48.55s!
a word |  | 1m many | wrong: a string that is not a whole number
key shop:rack::attack:29921572:req/ip:203.0.113.9 = rack-attack of req/ip:203.0.113.9
with the namespace of Rails |  | 49s 5 | fixed-window:0/1m used 5 left 0 reset 48.55s!
key rack::attack:29921571:req/ip:203.0.113.9 = rack-attack of req/ip:203.0.113.9
the window before | 10/1m | 800ms 13 | rack-attack@29921571 of req/ip:203.0.113.9 fixed-window:10/1m allowed used 0
    left 10 reset 0s! retry 0s!
key rack::attack:29621572:req/ip:203.0.113.9 = rack-attack of req/ip:203.0.113.9
a window long past | 10/1m | - 13 | rack-attack@29621572 of req/ip:203.0.113.9 fixed-window:10/1m allowed used 0 left
    10 reset 0s! retry 0s! never-expires!: no expiry, so the key stays although it counts for nothing
key rack::attack:fail2ban:ban:pentesters-203.0.113.9 = rack-attack/fail2ban of pentesters-203.0.113.9
a ban | 10/1m | 4m 1 | sure: unknown reset 4m0s! retry 4m0s!
key rack::attack:allow2ban:ban:a = rack-attack/allow2ban of a
a ban for ever |  | - 1 | sure: unknown never-expires!: no expiry, so its count never begins again: it denies for ever
    once it is at the limit
key rack::attack:498692:allow2ban:count:login:203.0.113.9 = rack-attack/allow2ban-count of login:203.0.113.9
what may lead to a ban |  | 7m49s 2 | sure: fixed-window:0/1h used 2 left 0 reset 7m48.55s!
key rack::attack:29921572:a:b = rack-attack of a:b
now 1795294331450000
a count of less than any | 1000000000/1ms | 1m -9223372036854775808 | fixed-window:0/1m reset 0s!`,
	"rate-limit-redis": `
key rl:203.0.113.9 = rate-limit-redis of 203.0.113.9
four hits | 10/1m | 9s 4 | sure: fixed-window:10/1m first allowed used 4 left 6 reset 9s! retry 0s!
at the limit | 10/1m | 9s 10 | sure: fixed-window:10/1m first used 10 left 0 reset 9s! retry 9s!
taken back | 10/1m | - -1 | sure: fixed-window:10/1m first allowed used 0 left 10 reset 0s! retry 0s! never-expires!:
    no expiry, so the key stays although it counts for nothing (a hit taken back after the window's end)
a counter without an expiry | 10/1m | - 57 | fixed-window:10/1m first allowed used 0 left 10 reset 0s! retry 0s!
    never-expires!: no expiry, so the key stays although it counts for nothing (a hit taken back after the window's end)
a hash |  | hash 1m a b | wrong: a hash, not a string
key rl:2001:db8::/56 = rate-limit-redis of 2001:db8::/56
a network |  | 9s 4 | sure: used 4 left 0 reset 9s!
key rl:user:42 = rate-limit-redis of user:42
somebody's counter |  | 9s 4 | used 4 left 0 reset 9s!`,
	"rate-limiter-flexible": `
key rlflx:203.0.113.9 = rate-limiter-flexible of 203.0.113.9
three points | 10/1m | 42s 3 | sure: fixed-window:10/1m first allowed used 3 left 7 reset 42s! retry 0s!
denied twice | 10/1m | 5s 12 | sure: fixed-window:10/1m first used 12 left 0 reset 5s! retry 5s!
blocked for an hour | 10/1m | 59m 11 | sure: fixed-window:10/1m first used 11 left 0 reset 59m0s! retry 59m0s!
blocked for ever | 10/1m | - 11 | fixed-window:10/1m first used 11 left 0
rewarded ahead | 10/1m | 1m -2 | fixed-window:10/1m first allowed used 0 left 12 reset 0s! retry 0s!
without the limit |  | 42s 3 | sure: used 3 left 0 reset 42s!
a text |  | 1m 03 | wrong: a string that is not a whole number
a list |  | list 1m 1 | wrong: a list, not a string
key login_fail:7 = rate-limiter-flexible of ^
a prefix of its own |  | 42s 3 | used 3 left 0 reset 42s!`,
	"redis-cell": `
key user:123 = redis-cell of ^
now 1795294331450000
without the limit |  | 7s 1795294338950000000 | unknown reset 7.5s!
remaining is of whole microseconds, one more than nanoseconds say | 3/1s,burst=4 | 1s 1795294331783334000 |
    token-bucket:3/1s burst 4 allowed used 2 left 3 reset 333.334ms!
remaining a microsecond earlier | 3/1s,burst=4 | 1s 1795294331783335000 | token-bucket:3/1s burst 4 allowed used 2 left
    2 reset 333.335ms!`,
	"redis_rate": `
key rate:project:123 = redis_rate of project:123
now 1795294332000000
three taken | 10/1m | 18s 312065549.42308903 | sure: token-bucket:10/1m allowed used 3 left 7 reset 17.423089027s!
all taken | 10/1m | 1m 312065591.5 | sure: token-bucket:10/1m used 10 left 0 reset 59.5s! retry 5.5s
without the limit |  | 18s 312065549.5 | sure: unknown reset 17.5s!
a TTL of its own |  | 1h 312065549.5 | unknown reset 17.5s!
a word |  | 1m hello | wrong: not a time in seconds since 2017
a count of v7 |  | 1m 3 | wrong: not a time in seconds since 2017
not a number |  | 1m nan | wrong: not a time in seconds since 2017
more is used than the burst, since the limit was lowered | 10/1m | 1m13s 312065604.5 | sure: token-bucket:10/1m used 13
    left 0 reset 1m12.5s! retry 18.5s
no expiry |  | - 312065549.5 | unknown reset 17.5s! never-expires: no expiry, so the key stays when it counts for
    nothing any more
a hash |  | hash 1m a b | wrong: a hash, not a string
key rate:x = redis_rate of x
now 1795294331450000
a great count | 1000000000/1ms | 1m 2147483647 | token-bucket:1000000000/1ms used 2000000000 left 0 reset
    509838h21m55.549999872s! retry 509838h21m55.548999936s short-ttl: expires before its units have come back, so more
    is let through than the limit allows`,
	"spring-cloud-gateway": `
key request_rate_limiter.{users.42}.tokens = spring-cloud-gateway of users.42
now 1795294331250000
seven left, a second ago | 2/1s,burst=10 | 9s 5; under request_rate_limiter.{users.42}.timestamp 9s 1795294330 | sure:
    token-bucket:2/1s burst 10 allowed used 3 left 7 reset 1.75s
without the limit |  | 9s 5; under request_rate_limiter.{users.42}.timestamp 9s 1795294330 | sure: unknown
without the timestamp | 2/1s,burst=10 | 9s 5 | token-bucket:2/1s burst 10 allowed used 0 left 10
a word |  | 1s NaN; under request_rate_limiter.{users.42}.timestamp 1s 1795294330 | wrong: a string that is not a number
a time in ms |  | 1s 1; under request_rate_limiter.{users.42}.timestamp 1s 1795294330000 | wrong: impossible tokens or
    an impossible time
key request_rate_limiter.{users.42}.timestamp = spring-cloud-gateway of users.42
by the timestamp, empty in this second | 2/1s,burst=10 | under request_rate_limiter.{users.42}.tokens 10s 0; 10s
    1795294331 | sure: token-bucket:2/1s burst 10 used 10 left 0 reset 4.75s retry 750ms
key request_rate_limiter.{203.0.113.9}.tokens = spring-cloud-gateway of 203.0.113.9
one token in five seconds, a fraction held, the client alone in the key | 1/5s,burst=3 | 20s 0.4; under
    request_rate_limiter.{203.0.113.9}.timestamp 20s 1795294331 | sure: token-bucket:1/5s burst 3 used 3 left 0 reset
    12.75s retry 2.75s`,
	"throttled": `
key throttled:203.0.113.9\nget\n/login\n = throttled of ^
now 1795294331450000
one and a quarter taken | 10/1m,burst=5 | 7.5s 1795294338950000000 | sure: token-bucket:10/1m burst 5 allowed used 2
    left 3 reset 7.5s!
all taken | 10/1m,burst=5 | 30s 1795294361449999001 | sure: token-bucket:10/1m burst 5 used 5 left 0 reset
    29.999999001s! retry 5.999999001s
the limit was lowered | 10/1m,burst=5 | 1m 1795294391450000000 | sure: token-bucket:10/1m burst 5 used 10 left 0 reset
    1m0s! retry 36s
just paid | 10/1m,burst=5 | 800ms 1795294331350000000 | sure: token-bucket:10/1m burst 5 allowed used 0 left 5 reset 0s!
without the limit |  | 7s 1795294338950000000 | sure: unknown reset 7.5s!
a limit of more units than nanoseconds | 1000000000/1ms | 7s 1795294338950000000 | sure: token-bucket:1000000000/1ms
    unknown reset 7.5s!
no expiry |  | - 1795294338950000000 | unknown reset 7.5s! never-expires: no expiry, so the key stays when it counts
    for nothing any more
nothing |  |  | nothing
seconds |  | 1m 1795294338 | wrong: not a time in nanoseconds since 1970
more than 64 bits |  | 1m 9999999999999999999 | wrong: not a time in nanoseconds since 1970
a sign |  | 1m -179529433895000000 | wrong: not a time in nanoseconds since 1970
a set |  | set 1m | wrong: a set, not a string
expires 0.75 s early, in which 7 units come back | 10/1s,burst=18 | 1s 1795294333200000000 | sure: token-bucket:10/1s
    burst 18 used 18 left 0 reset 1.75s! retry 50ms short-ttl: expires before its units have come back, so more is let
    through than the limit allows
kept for an hour |  | 1h 1795294338950000000 | unknown reset 7.5s!
key user:123 = throttled of ^
a key of anybody |  | 7s 1795294338950000000 | unknown reset 7.5s!`,
	"time-set": `
key rate_limit:203.0.113.9 = time-set of ^
now 1795294331450000
milliseconds | 3/1m | zset 1m 1.79529427045e+12 1.79529429145e+12 1.79529432145e+12 | sliding-log:3/1m allowed used 2
    left 1 reset 50s!
nanoseconds, as a float has them | 3/1m | zset 1m 1.79529427045e+18 1.79529429145e+18 1.79529432145e+18 |
    sliding-log:3/1m allowed used 2 left 1 reset 49.999999872s!
seconds | 3/1m | zset 1m 1.7952942705e+09 1.7952942915e+09 1.7952943215e+09 | sliding-log:3/1m allowed used 2 left 1
    reset 50.05s!
all taken, and one too many | 3/1m | zset 1m 1.79529427245e+12 1.79529428245e+12 1.79529429145e+12 1.79529432145e+12 |
    sliding-log:3/1m used 4 left 0 reset 50s! retry 11s!
a request of just a period ago does not count | 3/1m | zset 1m 1.79529427145e+12 1.79529429145e+12 1.79529432145e+12 |
    sliding-log:3/1m allowed used 2 left 1 reset 50s!
more than is read | 3/1m | zset 1m MANY | sliding-log:3/1m unknown reset 50.05s! retry 50.05s! grows!: it only grows:
    nothing removes what was added
without the limit |  | zset 1m 1.79529432145e+12 | unknown
scores of a game |  | zset 1m 12 40 1700 | wrong: a sorted set whose scores are not times
a negative score |  | zset 1m -1e+300 1.79529432145e+12 | wrong: a sorted set whose scores are not times`,
	"token-hash": `
key bucket:203.0.113.9 = token-hash of ^
now 1795294331450000
seconds | 10/1m,burst=5 | hash 1m tokens 0.5 last_refill 1795294322.45 | sure: token-bucket:10/1m burst 5 allowed used
    3 left 2 reset 18s
milliseconds | 10/1m,burst=5 | hash 1m tokens 0.5 last_refill 1795294322450 | sure: token-bucket:10/1m burst 5 allowed
    used 3 left 2 reset 18s
microseconds | 10/1m,burst=5 | hash 1m tokens 0.5 last_refill 1795294322450000 | sure: token-bucket:10/1m burst 5
    allowed used 3 left 2 reset 18s
nanoseconds | 10/1m,burst=5 | hash 1m tokens 0.5 last_refill 1795294322450000000 | sure: token-bucket:10/1m burst 5
    allowed used 3 left 2 reset 18s
another name | 10/1m,burst=5 | hash 1m tokens 0.5 last_refill_ts 1795294322.45 | sure: token-bucket:10/1m burst 5
    allowed used 3 left 2 reset 18s
an exponent | 10/1m,burst=5 | hash 1m tokens 0.5 last_refill 1.79529432245e+09 | sure: token-bucket:10/1m burst 5
    allowed used 3 left 2 reset 18s
empty, in whole seconds | 10/1m,burst=5 | hash 1m tokens 0 last_refill 1795294331 | sure: token-bucket:10/1m burst 5
    used 5 left 0 reset 29.55s retry 5.55s
in debt | 10/1m,burst=5 | hash 1m tokens -2 last_refill 1795294331.45 | sure: token-bucket:10/1m burst 5 used 7 left 0
    reset 42s retry 18s
without the limit |  | hash 1m tokens 0.5 last_refill 1795294322.45 | sure: unknown
kept for ever, as what somebody owns |  | hash - tokens 0.5 last_refill 1795294322.45 | unknown never-expires: no
    expiry, so the key stays when it counts for nothing any more
with other fields | 10/1m,burst=5 | hash 1m tokens 0.5 last_refill 1795294322.45 name x | token-bucket:10/1m burst 5
    allowed used 3 left 2 reset 18s
a date |  | hash 1m tokens 0.5 last_refill 2026-11-21 | wrong: a hash whose last_refill is not a time
a time of long ago |  | hash 1m tokens 0.5 last_refill 17 | wrong: a hash whose last_refill is not a time
NaN |  | hash 1m tokens NaN last_refill 1795294322.45 | wrong: a hash whose tokens are not a number
Traefik's |  | hash 1m tokens 0.5 last 1795294322450000 | wrong: a hash without the fields tokens and last_refill
key bucket:x = token-hash of bucket:x
now 1795294331450000
a great debt | 1000000000/1ms | hash 1m tokens -9e18 last_refill 1795294331 | sure: token-bucket:1000000000/1ms used
    2000000000 left 0 reset 2499h59m59.551s retry 2499h59m59.55s short-ttl: expires before its units have come back, so
    more is let through than the limit allows`,
	"traefik": `
key rate:ratelimit@file:203.0.113.9 = traefik/ratelimit@file of 203.0.113.9
now 1795294334222807
half a token, for the rest of which a request waits | 1/1s,burst=5 | hash 2s last 1795294334122807 tokens 0.4 | sure:
    token-bucket:1/1s burst 5 allowed used 5 left 0 reset 4.5s delay 500ms short-ttl: expires before its units have
    come back, so more is let through than the limit allows
too little of a token to wait for the rest | 1/1s,burst=5 | hash 2s last 1795294334122807 tokens 0.3 | sure:
    token-bucket:1/1s burst 5 used 5 left 0 reset 4.6s retry 600ms short-ttl: expires before its units have come back,
    so more is let through than the limit allows
less than nothing, while a request waits | 1/1s,burst=5 | hash 2s last 1795294334222807 tokens -0.5 | sure:
    token-bucket:1/1s burst 5 used 6 left 0 reset 5.5s retry 1.5s short-ttl: expires before its units have come back,
    so more is let through than the limit allows
three of five | 1/1s,burst=5 | hash 2s last 1.795294334222807e+15 tokens 3 | sure: token-bucket:1/1s burst 5 allowed
    used 2 left 3 reset 2s
less than one a second is kept for longer | 1/10s,burst=2 | hash 11s last 1795294334222807 tokens 1 | sure:
    token-bucket:1/10s burst 2 allowed used 1 left 1 reset 10s
the clock of Traefik is ahead | 1/1s,burst=5 | hash 2s last 1795294335222807 tokens 3 | sure: token-bucket:1/1s burst 5
    allowed used 2 left 3 reset 2s
without the limit |  | hash 2s last 1795294334122807 tokens 0.4 | sure: unknown
a time of somebody else |  | hash 2s last 1795294334 tokens 0.4 | unknown
not a number |  | hash 2s last 1795294334122807 tokens inf | wrong: a hash whose last or tokens is not a number
one field more |  | hash 2s last 1 tokens 0.4 user 9 | wrong: a hash without the fields last and tokens alone
key rate:a@b:c = traefik/a@b of c
now 1795294331450000
a great debt | 1000000000/1ms | hash 1m last 1795294331000000 tokens -1e300 | sure: token-bucket:1000000000/1ms used
    2000000000 left 0 reset 2562047h47m16.854775807s retry 2562047h47m16.854775807s short-ttl: expires before its units
    have come back, so more is let through than the limit allows`,
	"ulule": `
key limiter:203.0.113.9 = ulule of 203.0.113.9
now 1795294331450000
three counted | 10/1m | 40s 3 | sure: fixed-window:10/1m first allowed used 3 left 7 reset 40s! retry 0s!
denied ones counted | 10/1m | 40s 13 | sure: fixed-window:10/1m first used 13 left 0 reset 40s! retry 40s!
without the limit |  | 40s 3 | sure: used 3 left 0 reset 40s!
with the count alone | 3 | 40s 3 | sure: fixed-window:3/0s first used 3 left 0 reset 40s! retry 40s!
no expiry | 10/1m | - 10 | fixed-window:10/1m first used 10 left 0 reset 1m0s! retry 1m0s! never-expires!: no expiry,
    so it denies for ever (ulule/limiter#233)
milliseconds given as seconds | 10/1m | 16h23m20s 3 | sure: fixed-window:10/1m first allowed used 3 left 7 reset
    16h23m20s! retry 0s! absurd-ttl!: an expiry that looks like milliseconds given as seconds, so its count does not
    begin again until then, and it denies once it is at the limit
a negative count |  | 1m -1 | wrong: a negative count
a word |  | 1m on | wrong: a string that is not a whole number
a hash |  | hash 1m a 1 | wrong: a hash, not a string
key limiter:user:9 = ulule of user:9
a user |  | 40s 3 | used 3 left 0 reset 40s!
key api:203.0.113.9 = ulule of 203.0.113.9
a prefix of one's own |  |  | nothing`,
	"upstash": `
key @upstash/ratelimit:203.0.113.9:29921572 = upstash of 203.0.113.9
now 1795294331450000
fixed | 10/1m | 55s 3 | sure: fixed-window:10/1m allowed used 3 left 7 reset 48.55s! retry 0s! string ^
the period of the number |  | 55s 3 | sure: fixed-window:0/1m used 3 left 0 reset 48.55s! string ^
a limit for all |  | 55s 3; under @upstash/ratelimit:dynamic:global - 4 | sure: fixed-window:4/1m allowed used 3 left 1
    reset 48.55s! retry 0s! string ^
cached, without an expiry | 10/1m | - 3 | sure: fixed-window:10/1m allowed used 3 left 7 reset 48.55s! retry 0s! string
    ^ never-expires: no expiry, so the key stays when it counts for nothing any more (cachedFixedWindow of
    @upstash/ratelimit never sets one)
sliding | 10/1m | 1m54.55s 3; under @upstash/ratelimit:203.0.113.9:29921571 1m 8 | sure: sliding-counter:10/1m allowed
    used 9 left 1 reset 48.55s! retry 0s! string ^ string @upstash/ratelimit:203.0.113.9:29921571
sliding, this window is full | 10/1m | 1m54.55s 10 | sure: sliding-counter:10/1m used 10 left 0 reset 48.55s! retry
    48.551s! string ^
several regions | 10/1m | hash 1m54.55s a 1 b 2; under @upstash/ratelimit:203.0.113.9:29921571 hash 1m40s c 8 | sure:
    sliding-counter:10/1m used 10 left 0 reset 48.55s! retry 3.55s! hash ^ hash @upstash/ratelimit:203.0.113.9:29921571
a limit for all that is a word |  | 55s 3; under @upstash/ratelimit:dynamic:global - x | wrong: a limit of all, under a
    key that ends in :dynamic:global, that is not a count
key @upstash/ratelimit:203.0.113.9:29921571 = upstash of 203.0.113.9
fixed, denied, and the window before | 10/1m | under @upstash/ratelimit:203.0.113.9:29921572 55s 12; 20s 9 | sure:
    fixed-window:10/1m used 12 left 0 reset 48.55s! retry 48.55s! string @upstash/ratelimit:203.0.113.9:29921572 string
    ^
fixed, the window before alone | 10/1m | 20s 9 | sure: fixed-window:10/1m allowed used 0 left 10 reset 0s! retry 0s!
    string ^
sliding, the window before weighs too much | 10/1m | under @upstash/ratelimit:203.0.113.9:29921572 1m54.55s 4; 1m 8 |
    sure: sliding-counter:10/1m used 10 left 0 reset 48.55s! retry 3.551s! string
    @upstash/ratelimit:203.0.113.9:29921572 string ^
sliding, the window before alone | 10/1m | 1m40s 8 | sure: sliding-counter:10/1m allowed used 6 left 4 reset 48.55s!
    retry 0s! string ^
key @upstash/ratelimit:203.0.113.9:29621572 = upstash of 203.0.113.9
cached, long past | 10/1m | - 3 | sure: upstash@29621572 of 203.0.113.9 fixed-window:10/1m allowed used 0 left 10 reset
    0s! retry 0s! string ^ never-expires!: no expiry, so the key stays although it counts for nothing
    (cachedFixedWindow of @upstash/ratelimit never sets one)
key @upstash/ratelimit:user:7 = upstash of user:7
a bucket | 2/10s,burst=10 | hash 40s refilledAt 1795294320000 tokens 4 | sure: token-bucket:2/10s burst 10 allowed used
    4 left 6 reset 8.55s hash ^
a bucket below 0 | 2/10s,burst=10 | hash 1m refilledAt 1795294330000 tokens -2 | sure: token-bucket:2/10s burst 10 used
    12 left 0 reset 8.55s retry 18.55s hash ^
a bucket without the limit |  | hash 1m refilledAt 1795294330000 tokens 4 | sure: unknown hash ^
key myapp:user:29921572 = upstash of myapp:user
a bucket with an own prefix and a number at its end | 2/10s,burst=10 | hash 1m refilledAt 1795294330000 tokens 4 |
    upstash of ^ token-bucket:2/10s burst 10 allowed used 6 left 4 reset 8.55s hash ^
key @upstash/ratelimit:a = upstash of a
a string in place of a bucket |  | 1m 3 | wrong: a string, not a hash
key @upstash/ratelimit:a = upstash of a
now 1795294335000000
the greatest count of all | 10/1m | hash 1h refilledAt 1795294335000 tokens -1000; under
    @upstash/ratelimit:dynamic:global - 9223372036854775807 | wrong: a limit of all, under a key that ends in
    :dynamic:global, that is not a count
key @upstash/ratelimit:a = upstash of a
now 1795294335000000
a great count of all | 10/1m | hash 1h refilledAt 1795294335000 tokens -1000; under @upstash/ratelimit:dynamic:global -
    2305843009213693951 | sure: token-bucket:10/1m burst 2305843009213693951 used 2305843009213694951 left 0 reset 1m0s
    retry 1h41m0s hash ^ short-ttl: expires before its units have come back, so more is let through than the limit
    allows
key @upstash/ratelimit:a:29921572 = upstash of a
now 1795294331450000
the greatest count | 1000000000/1ms | 1m 9223372036854775807 | sure: fixed-window:0/1m used 2305843009213693951 left 0
    reset 48.55s! string ^`,
}
