package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/internal/redistest"
)

func TestKindsOfKeys(t *testing.T) {
	for name, want := range map[string]string{
		"session:9f31":                         "session:*",
		"session:9f31:data":                    "session:*",
		"spring:session:sessions:9f31":         "spring:*",
		"my_app:9f31":                          "my_app:*",
		"cache/page/1":                         "cache/*",
		"myapp.cache.user":                     "myapp.*",
		"_kombu.binding.celery":                "_kombu.*",
		"app|x":                                "app|*",
		"jobs#7":                               "jobs#*",
		"{user:1}:cart":                        "{user:*",
		"{bull}:queue:1":                       "{bull}*",
		"{123}:cart":                           noPrefix,
		":1:views.decorators":                  ":1:*",
		"celery-task-meta-1":                   "celery-*",
		"user_123":                             "user_*",
		"12345:cart":                           noPrefix,
		"550e8400-e29b-41d4-a716-446655440000": noPrefix,
		"deadbeef:x":                           noPrefix,
		"deadbee:x":                            "deadbee:*", // too short for an id
		"celery":                               noPrefix,
		"":                                     noPrefix,
		":":                                    noPrefix,
		"-_-":                                  noPrefix,
		"\xff\xfe:x":                           "�:*",
		strings.Repeat("x", 39) + ":":          strings.Repeat("x", 39) + ":*",
		strings.Repeat("x", 40) + ":":          strings.Repeat("x", 40) + "…*",
	} {
		if got := kindOf(name); got != want {
			t.Errorf("%q is of the kind %q, want %q", name, got, want)
		}
	}
}

// sampleOf returns the facts of sampled keys, each of that many bytes.
func sampleOf(scale float64, sizes map[string]int64) otherFacts {
	f := otherFacts{prefix: "rl", counted: true, complete: scale == 1, kinds: map[string]*weight{}}
	for name, size := range sizes {
		f.add(name, size, scale)
	}
	f.total = int64(float64(len(sizes)) * scale)
	return f
}

func TestOtherKeys(t *testing.T) {
	judge := func(f otherFacts) Finding { return f.judge("me") }
	ours := map[string]int64{"rl:{u}:a/b": 400, "rl!{denied}": 100}
	with := func(more map[string]int64) map[string]int64 {
		all := map[string]int64{}
		for _, from := range []map[string]int64{ours, more} {
			for name, size := range from {
				all[name] = size
			}
		}
		return all
	}
	many := map[string]int64{}
	for i := range 7 {
		many[fmt.Sprintf("p%d:x", i)] = int64(100 * (i + 1))
	}
	missed := sampleOf(10, with(map[string]int64{"a:1": 100}))
	missed.missed = missedWorth + 1
	little := sampleOf(10, with(map[string]int64{"a:1": 100}))
	little.missed = missedWorth
	elsewhere := sampleOf(1, ours)
	elsewhere.databases = map[string]int64{"db1": 1200}
	uncounted := sampleOf(1, with(map[string]int64{"a:1": 100}))
	uncounted.counted, uncounted.complete = false, false
	refused := sampleOf(1, with(map[string]int64{"a:1": isUnknown, "b:1": isUnknown, "b:2": isUnknown}))
	refused.right = keyDenied
	without := sampleOf(1, map[string]int64{"rl:{u}:a/b": isUnknown, "a:1": isUnknown})
	without.right = denied
	partly := sampleOf(1, with(map[string]int64{"a:1": 500, "b:1": isUnknown}))
	checkVerdicts(t, []verdictTest{
		{"none", judge(sampleOf(1, ours)), OK, "none among all 2 keys", ""},
		{"none sampled", judge(sampleOf(1000, ours)), OK, "none among 2 sampled keys of 2,000", ""},
		{"other databases", judge(elsewhere), OK, "none among all 2 keys; database 1 has 1,200 keys", ""},
		{"half", judge(sampleOf(1, with(map[string]int64{"a:1": 300, "a:2": 100, "x": 100}))), OK,
			"about 50 % of the bytes of all 5 keys, about 500 B: a:* 400 B, (no prefix) 100 B; the biggest is a:1 with 300 B", ""},
		{"estimated", judge(sampleOf(10, with(map[string]int64{"a:1": 500}))), OK,
			"about 50 % of the bytes of 3 sampled keys of 30, about 5 kB: a:* 5 kB", ""},
		{"not counted", judge(uncounted), OK, "about 17 % of the bytes of 3 sampled keys, about 100 B: a:* 100 B", ""},
		{"a little", judge(sampleOf(1, with(map[string]int64{"a:1": 5}))), OK, "less than 1 % of the bytes", ""},
		{"nearly all", judge(sampleOf(1, with(map[string]int64{"a:1": 500_000}))), OK, "more than 99 % of the bytes", ""},
		{"many", judge(sampleOf(1, many)), OK, "about 2.8 kB: p6:* 700 B, p5:* 600 B, p4:* 500 B, p3:* 400 B, p2:* 300 B, " +
			"2 more prefixes 300 B; the biggest is p6:x with 700 B", ""},
		{"random texts", judge(sampleOf(1, map[string]int64{"ab-1": 5, "cd_1": 5, "job-1": 50, "job-2": 50})), OK,
			"job-* 100 B, (no prefix) 10 B", ""},
		{"hostile", judge(sampleOf(1, map[string]int64{"\x1b[31m\n:1": 5})), OK, `: "\x1b[31m\n:*" 5 B`, ""},
		{"a huge key is elsewhere", judge(missed), OK, "; about 67.1 MB more is in few large keys", ""},
		{"all explained", judge(little), OK, "about 17 % of the bytes of 3 sampled keys of 30, about 1 kB: a:* 1 kB", ""},
		{"no right to the keys", judge(refused), OK, "3 of all 5 keys, of unknown size: b:* 2 keys, a:* 1 key",
			"to see their sizes: redis-cli ACL SETUSER me '%R~*'"},
		{"no right to measure", judge(without), OK, "1 of all 2 keys, of unknown size: a:* 1 key", "'%R~*' '+memory|usage'"},
		{"no right to some", judge(partly), OK, "about 500 B: a:* 500 B, b:* 1 key; the biggest is a:1 with 500 B; " +
			"of 1 key the size is unknown", "'%R~*'"},
	})
	if got := judge(little).Summary; strings.Contains(got, "more is") {
		t.Errorf("it says %q of what is too little", got)
	}
}

// What others keep in the server is named by prefix. A user with an operator's rights may not measure it, is refused
// nothing, and is told what would help.
func TestOthersInTheServerAreNamed(t *testing.T) {
	server := redistest.Start(t)
	fill(t, server, 3)
	client := server.Client()
	client.Eval(ctx, `for i = 1, 200 do redis.call("SET", "session:"..i, string.rep("x", 1000)) end
		for i = 1, 5000 do redis.call("HSET", "big", "field"..i, string.rep("x", 50)) end
		redis.call("SELECT", 2) redis.call("SET", "elsewhere", "x")`, nil)
	report, err := examine(t, server, "", asIs)
	if err != nil {
		t.Fatal(err)
	}
	f := report.finding(t, "other keys")
	if want := "of all 204 keys, about "; f.Status != OK || !strings.Contains(f.Summary, want) ||
		!strings.Contains(f.Summary, "; the biggest is big with ") || !strings.HasSuffix(f.Summary, "; database 2 has 1 key") {
		t.Errorf("%+v", f)
	}
	prefixes, _ := f.Data["prefixes"].([]map[string]any)
	if len(prefixes) != 2 || prefixes[1]["prefix"] != "session:*" || prefixes[1]["keys"] != int64(200) ||
		prefixes[1]["bytes"].(int64) < 200_000 || prefixes[0]["bytes"].(int64) < 250_000 {
		t.Errorf("%+v", prefixes)
	}

	roles := redisserver.Roles()
	words := []any{"ACL", "SETUSER", "tried", "reset", "on", ">pw"}
	for _, word := range roles[len(roles)-1].Rule("rl") {
		words = append(words, word)
	}
	server.Do(words...)
	server.Do("ACL", "LOG", "RESET")
	if report, err = examine(t, server, "tried", asIs); err != nil {
		t.Fatal(err)
	}
	f = report.finding(t, "other keys")
	if !strings.HasPrefix(f.Summary, "201 of all 204 keys, of unknown size: session:* 200 keys, (no prefix) 1 key") ||
		!strings.HasSuffix(f.Advice, "ACL SETUSER tried '%R~*'") {
		t.Errorf("%+v", f)
	}
	if log, _ := server.Do("ACL", "LOG").([]any); len(log) > 0 {
		t.Errorf("refused: %v", log)
	}
	server.Do("ACL", "SETUSER", "tried", "%R~*")
	if report, err = examine(t, server, "tried", asIs); err != nil {
		t.Fatal(err)
	}
	if f := report.finding(t, "other keys"); !strings.Contains(f.Summary, "of the bytes of all 204 keys") || f.Advice != "" {
		t.Errorf("with the advised right: %+v", f)
	}
}

// The sample is bounded, whatever --scan-limit allows, and asks for few members of each key.
func TestTheSampleOfOthersIsBounded(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	client.Eval(ctx, `for i = 1, 15000 do redis.call("SET", "session:"..i, "x") end`, nil)
	for _, test := range []struct{ scanLimit, least, most int }{{0, sampledKeys, sampledKeys + 100}, {200, 200, 300}} {
		server.Do("CONFIG", "RESETSTAT")
		report, err := examine(t, server, "", func(o *Options) { o.ScanLimit = test.scanLimit })
		if err != nil {
			t.Fatal(err)
		}
		f := report.finding(t, "other keys")
		if n := f.Data["sampled_keys"].(int64); n < int64(test.least) || n > int64(test.most) {
			t.Errorf("with --scan-limit %d it samples %d keys", test.scanLimit, n)
		}
		stats := redisserver.ParseInfo(client.Info(ctx, "commandstats").Val())["cmdstat_memory|usage"]
		var calls int
		if _, err := fmt.Sscanf(stats, "calls=%d", &calls); err != nil || calls > test.most {
			t.Errorf("with --scan-limit %d: MEMORY USAGE %s, %v", test.scanLimit, stats, err)
		}
	}
}

// A huge key in the sample does not stand for others: all data takes no more than the server says.
func TestAHugeKeyIsNotMultiplied(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	client.Eval(ctx, `for i = 1, 5000 do redis.call("SET", "s:"..i, "x") end`, nil)
	first, _ := client.Scan(ctx, 0, "*", 10).Val()
	client.SetRange(ctx, first[0], 20_000_000, "x")
	report, err := examine(t, server, "", func(o *Options) { o.ScanLimit = 100 })
	if err != nil {
		t.Fatal(err)
	}
	f := report.finding(t, "other keys")
	if bytes := f.Data["estimated_other_bytes"].(int64); bytes < 20_000_000 || bytes > 30_000_000 {
		t.Errorf("%d bytes are estimated, want about 20 MB: %+v", bytes, f)
	}
}

// Each master of a Cluster is sampled, and counts by its number of keys.
func TestOthersInAClusterAreNamed(t *testing.T) {
	cluster := redistest.StartCluster(t)
	addrs := make([]string, len(cluster.Masters))
	for i, master := range cluster.Masters {
		addrs[i] = master.Addr
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, DisableIdentity: true})
	defer client.Close()
	for i := range 300 {
		if err := client.Set(ctx, fmt.Sprint("session:", i), strings.Repeat("x", 1000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	report, err := Redis(ctx, client, Options{Prefix: "rl", ScanLimit: 100_000, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	f := report.finding(t, "other keys")
	if !strings.Contains(f.Summary, "of the bytes of all 300 keys, about 3") || f.Server != "" {
		t.Errorf("%+v", f)
	}
	if n := len(slices.DeleteFunc(slices.Clone(report.Findings), func(f Finding) bool { return f.Check != "other keys" })); n != 1 {
		t.Errorf("there are %d such findings", n)
	}
}
