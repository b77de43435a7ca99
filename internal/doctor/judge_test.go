package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// verdictTest wants of a finding its status and some words of its texts.
type verdictTest struct {
	name    string
	found   Finding
	status  Status
	summary string
	advice  string // words of it; empty for none at all
}

func checkVerdicts(t *testing.T, tests []verdictTest) {
	t.Helper()
	for _, test := range tests {
		f := test.found
		if f.Status != test.status || !strings.Contains(f.Summary, test.summary) ||
			!strings.Contains(f.Advice, test.advice) ||
			(test.advice == "") != (f.Advice == "") {
			t.Errorf("%s: %s %q, advice %q; want %s, %q, %q", test.name, f.Status, f.Summary, f.Advice, test.status,
				test.summary,
				test.advice)
		}
		if strings.ContainsAny(f.Summary+f.Advice, "\n") {
			t.Errorf("%s: more than one line: %q, %q", test.name, f.Summary, f.Advice)
		}
		if _, err := json.Marshal(f); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// pingsOf returns a hundred pings, all fast but the last few.
func pingsOf(slow int, took time.Duration) []time.Duration {
	pings := make([]time.Duration, 100)
	for i := range pings {
		pings[i] = 300 * time.Microsecond
		if i >= len(pings)-slow {
			pings[i] = took
		}
	}
	return pings
}

func TestLatency(t *testing.T) {
	checkVerdicts(t, []verdictTest{
		{"fast", judgeLatency(pingsOf(0, 0)), OK, "p50 0.30 ms, p99 0.30 ms, max 0.30 ms", ""},
		{"just fast enough", judgeLatency(pingsOf(1, 5*time.Millisecond)), OK, "p99 5.00 ms", ""},
		{"slow", judgeLatency(pingsOf(1, 5001*time.Microsecond)), Warn, "max 5.00 ms", "p99 is above 5.00 ms"},
	})
}

func TestVersion(t *testing.T) {
	valkey := redisserver.Info{"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"}
	checkVerdicts(t, []verdictTest{
		{"4", judgeVersion(redisserver.Info{"redis_version": "4.0.14"}), Fail, "too old", "upgrade"},
		{"6.2", judgeVersion(redisserver.Info{"redis_version": "6.2.14"}), Warn, "Redis 6.2.14", "EVALSHA"},
		{"7", judgeVersion(redisserver.Info{"redis_version": "7.0.0"}), OK, "Redis 7.0.0", ""},
		{"Valkey", judgeVersion(valkey), OK, "Valkey 8.1.0 (speaks Redis 7.2.4)", ""},
	})
}

// A program that imitates Redis can leave out what a judgement needs.
func TestAnInfoWithoutItsFields(t *testing.T) {
	empty, partly := judgeInfo(redisserver.Info{}, nil),
		judgeInfo(redisserver.Info{"redis_version": "7.0.0", "used_memory": "1"}, nil)
	if len(empty) != 1 || len(partly) != 3 {
		t.Fatalf("%+v, %+v", empty, partly)
	}
	checkVerdicts(t, []verdictTest{
		{"empty", empty[0], Warn, "INFO does not have redis_version, aof_enabled, used_memory, role",
			"is it a Redis or Valkey?"},
		{"partly", partly[2], Warn, "INFO does not have aof_enabled, role", "is it a Redis or Valkey?"},
	})
}

func TestRole(t *testing.T) {
	judge := func(text string) []Finding {
		return judgeRole(redisserver.ParseInfo(strings.ReplaceAll(text, " ", "\r\n")))
	}
	replica := judge("role:slave master_host:10.0.0.1 master_port:6379")
	alone := judge("role:master connected_slaves:0 master_repl_offset:0")
	behind := func(state string, lag int) []Finding {
		return judge(fmt.Sprintf("role:master connected_slaves:2 "+
			"slave0:ip=10.0.0.2,port=6379,state=online,offset=1000,lag=0 "+
			"slave1:ip=10.0.0.3,port=6379,state=%s,offset=400,lag=%d master_repl_offset:1000", state, lag))
	}
	checkVerdicts(t, []verdictTest{
		{"replica", replica[0], Fail, "a replica of 10.0.0.1:6379", "master's address"},
		{"master", alone[0], OK, "master", ""},
		{"alone", alone[1], Warn, "all usage is lost", "attach a replica"},
		{"in step", behind("online", 10)[1], OK, "2 connected, at most 600 B and 10 s behind",
			""},
		{"late", behind("online", 11)[1], Warn, "1 replica of 2 out of sync: 10.0.0.3:6379; at most 600 B and 11 s",
			"failover"},
	})
	if len(replica) != 1 {
		t.Errorf("a replica's own replicas are judged: %+v", replica)
	}
}

func TestPersistence(t *testing.T) {
	fine := redisserver.Info{"aof_enabled": "0", "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}
	aof := redisserver.Info{"aof_enabled": "1", "aof_last_write_status": "ok", "rdb_last_bgsave_status": "ok"}
	failed := redisserver.Info{"rdb_last_bgsave_status": "err"}
	saves := redisserver.Info{"save": "3600 1", "stop-writes-on-bgsave-error": "yes"}
	none := redisserver.Info{"save": ""}
	checkVerdicts(t, []verdictTest{
		{"neither", judgePersistence(fine, none), Warn, "a restart forgets all usage", "appendonly"},
		{"snapshots", judgePersistence(fine, saves), OK, "snapshots", ""},
		{"append-only", judgePersistence(aof, none), OK, "append-only file, saved without errors", ""},
		{"both", judgePersistence(aof, saves), OK, "append-only file and snapshots", ""},
		{"not known", judgePersistence(fine, redisserver.Info{}), Warn, "cannot be known without CONFIG GET",
			"forgets"},
		{"snapshot failed", judgePersistence(failed, saves), Fail, "takes are refused (stop-writes-on-bgsave-error)",
			"disk is full"},
		{"snapshot failed, which stops nothing", judgePersistence(failed,
			redisserver.Info{"save": "1 1", "stop-writes-on-bgsave-error": "no"}), Warn, "the last snapshot failed",
			"disk"},
		{"write failed", judgePersistence(redisserver.Info{"aof_enabled": "1", "aof_last_write_status": "err"}, none),
			Fail,
			"could not be written", "log"},
	})
}

func TestMemory(t *testing.T) {
	at := func(used int, policy string) redisserver.Info {
		return redisserver.Info{"used_memory": fmt.Sprint(used), "maxmemory": "1000000", "maxmemory_policy": policy}
	}
	checkVerdicts(t, []verdictTest{
		{"no bound", judgeMemory(redisserver.Info{"used_memory": "1500000", "maxmemory": "0"}), Warn,
			"1.5 MB used, without a limit",
			"maxmemory"},
		{"room", judgeMemory(at(799_999, "noeviction")), OK, "800 kB of 1 MB used (80 %), 200 kB left", ""},
		{"nearly full", judgeMemory(at(800_000, "noeviction")), Warn, "200 kB left", "once it is full"},
		{"full", judgeMemory(at(950_000, "noeviction")), Fail, "50 kB left", "raise maxmemory"},
		{"evicting", judgeMemory(at(999_999, "allkeys-lru")), OK, "left", ""},
		{"over", judgeMemory(at(1_200_000, "noeviction")), Fail, "0 B left",
			"refused (exit code 4) until there is room: raise maxmemory"},
	})
}

func TestEviction(t *testing.T) {
	policy := func(name, evicted string) Finding {
		return judgeEviction(redisserver.Info{"maxmemory_policy": name, "evicted_keys": evicted})
	}
	checkVerdicts(t, []verdictTest{
		{"noeviction", policy("noeviction", "0"), OK, "no usage is lost", ""},
		{"may evict", policy("volatile-ttl", "0"), Warn, "volatile-ttl evicts limits once memory is full",
			"choose noeviction"},
		{"has evicted", policy("allkeys-lru", "3"), Fail, "3 keys were evicted since the server started; limits",
			"raise maxmemory"},
	})
}

func TestClocks(t *testing.T) {
	apart := func(d time.Duration) Finding {
		return judgeClocks([]skew{{"b:1", time.Hour, time.Millisecond}, {"a:1", time.Hour + d, time.Millisecond},
			{"c:1", time.Hour + d/2, time.Millisecond}})
	}
	checkVerdicts(t, []verdictTest{
		{"one server, far off", judgeClocks([]skew{{"s", -time.Hour, 2 * time.Millisecond}}), OK,
			"3600000 ms behind ours (±2.00 ms)", ""},
		{"in step", apart(100 * time.Millisecond), OK, "masters differ by 100 ms at most (±2.00 ms)", ""},
		{"skewed", apart(101 * time.Millisecond), Warn, "a:1 is ahead of b:1", "never runs backwards"},
		{"far too skewed", apart(1001 * time.Millisecond), Fail, "1001 ms", "time stands still"},
	})
}

// lacking is a user of whose rights the server says the same.
func lacking(is verdict, lacks func(redisserver.Right) bool) rightFacts {
	r := rightFacts{user: "u", prefix: "rl", rights: redisserver.Rights("rl")}
	for _, right := range r.rights {
		r.verdicts = append(r.verdicts, map[bool]verdict{true: is, false: allowed}[lacks(right)])
	}
	return r
}

// factsOf is a user who lacks some rights.
func factsOf(is verdict, commands ...string) rightFacts {
	return lacking(is, func(right redisserver.Right) bool { return slices.Contains(commands, right.Command) })
}

// roleFacts is a user with exactly the rights that some commands need.
func roleFacts(commands ...string) rightFacts {
	return lacking(denied, func(right redisserver.Right) bool {
		return !slices.ContainsFunc(right.For, func(c string) bool { return slices.Contains(commands, c) })
	})
}

func TestRights(t *testing.T) {
	noKeys := factsOf(keyDenied, "evalsha_ro", "eval_ro", "evalsha", "eval", "get", "getrange", "exists", "strlen",
		"type", "set", "setrange", "pexpireat", "del", "unlink", "pttl")
	checkVerdicts(t, []verdictTest{
		{"all", judgeRights(factsOf(denied)), OK, "user u can run every limitctl command", ""},
		{"reader", judgeRights(roleFacts("check", "inspect", "denials", "audit")), OK,
			"can run check, inspect, denials, audit; not consume, refund, reset, undo, override, doctor", ""},
		{"writer", judgeRights(roleFacts("check", "consume", "refund")), OK,
			"can run check, denials, consume, refund, undo; not inspect, audit, reset, override, doctor", ""},
		{"operator", judgeRights(roleFacts(redisserver.Commands()...)), OK, "can run every", ""},
		{"no set", judgeRights(factsOf(denied, "set")), Fail, "can run check, inspect, denials, audit, doctor; not " +
			"consume, refund, reset, undo, override, though it has some of the rights", "ACL SETUSER u +set"},
		{"no unlink", judgeRights(factsOf(denied, "unlink")), OK, "not reset, override", ""},
		{"nothing", judgeRights(lacking(denied, func(redisserver.Right) bool { return true })), Fail,
			"can run no limitctl command", "+getrange"},
		{"no keys beside", judgeRights(factsOf(keyDenied, "hgetall", "hmget", "hlen", "hset", "hdel")), Warn,
			"not denials, override; calls with a token are refused; who is denied is not counted or shown",
			"redis-cli ACL SETUSER u '~rl!*'"},
		{"no hset", judgeRights(factsOf(denied, "hset")), Warn, "who is denied is not counted",
			"redis-cli ACL SETUSER u +hset"},
		{"no keys", judgeRights(noKeys), Fail, "can run denials, audit; not check",
			"redis-cli ACL SETUSER u '~rl:*'"},
		{"another server", judgeRights(factsOf(unknown, "evalsha_ro", "eval_ro", "pexpiretime")), OK,
			"can run every", ""},
		{"and no unlink there", judgeRights(factsOf(unknown, "unlink")), OK, "not reset, override", ""},
	})
}

func TestReadVerdict(t *testing.T) {
	for answer, want := range map[string]verdict{
		"OK": allowed,
		"User u has no permissions to run the 'config|get' command":   denied,
		"User u has no permissions to access the 'rl:{a}:b' key":      keyDenied,
		"This user has no permissions to access one of the keys used": keyDenied,
		"This user has no permissions to run the 'set' command":       denied,
	} {
		if got := readVerdict(answer); got != want {
			t.Errorf("%q is read as %d, want %d", answer, got, want)
		}
	}
}

func TestSentinels(t *testing.T) {
	fine := redisserver.SentinelHealth{Address: "10.0.0.1:26379", Known: 3, Quorum: 2}
	change := func(how func(*redisserver.SentinelHealth)) []Finding {
		s := fine
		how(&s)
		return judgeSentinels([]redisserver.SentinelHealth{fine, s})
	}
	silent := change(func(s *redisserver.SentinelHealth) { s.Problem = errors.New("no answer in time") })
	checkVerdicts(t, []verdictTest{
		{"fine", judgeSentinels([]redisserver.SentinelHealth{fine})[0], OK,
			"3 Sentinels watch the master, and 2 have to agree", ""},
		{"all must agree", judgeSentinels([]redisserver.SentinelHealth{{Known: 3, Quorum: 3}})[0], Warn,
			"no failover survives the loss of one", "quorum of all but one"},
		{"no quorum", change(func(s *redisserver.SentinelHealth) { s.NoQuorum = "2 usable Sentinels" })[0], Fail,
			"no failover is possible now: 10.0.0.1:26379",
			"SENTINEL RESET"},
		{"down", change(func(s *redisserver.SentinelHealth) { s.Down = true })[1], Fail,
			"the master is down, says 10.0.0.1",
			"SENTINEL MASTER"},
		{"all silent", judgeSentinels([]redisserver.SentinelHealth{{Problem: errors.New("no answer in time")}})[0],
			Fail,
			"no Sentinel answers", "check that"},
		{"one silent", silent[1], Warn, "no answer from 10.0.0.1:26379 (no answer in time)", "check that it runs"},
	})
	if silent[0].Status != OK {
		t.Errorf("with one silent of two asked: %v", silent[0])
	}
}

func TestCluster(t *testing.T) {
	const one, two = "a 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-8000",
		"b 10.0.0.2:6379@16379,host master - 0 0 2 " +
			"connected 8001-16382 16383"
	judge := func(state, failing string, lines ...string) Finding {
		found := judgeCluster(state, redisserver.ParseNodes(strings.Join(lines, "\n")), strings.Fields(failing))
		return found[len(found)-1]
	}
	checkVerdicts(t, []verdictTest{
		{"fine", judge("ok", "", one, two), OK, "all 16384 slots covered by 2 masters", ""},
		{"a slot missing", judge("ok", "", one, strings.TrimSuffix(two, " 16383")), Fail,
			"1 of 16384 slots have no master",
			"bring the missing masters back"},
		{"down", judge("fail", "", one, two), Fail, "cluster_state is fail", "CLUSTER INFO"},
		{"failing", judge("ok", "10.0.0.3:6379", one, two), Fail, "10.0.0.3:6379", "CLUSTER FORGET"},
	})
}

func TestFile(t *testing.T) {
	fine := filestore.Health{Path: "f", Exists: true, Bytes: 4096, JournalMode: "wal", Keys: 3}
	change := func(how func(*filestore.Health)) Finding {
		h := fine
		how(&h)
		return judgeFile(h, nil)[1]
	}
	checkVerdicts(t, []verdictTest{
		{"fine", judgeFile(fine, nil)[0], OK, "f, 4.1 kB", ""},
		{"keys", judgeFile(fine, nil)[2], OK, "3 limits", ""},
		{"unreadable", judgeFile(fine, fmt.Errorf("%w: no", store.ErrRefused))[0], Fail, "no", "path and rights"},
		{"damaged", change(func(h *filestore.Health) { h.Damage = "row 1 missing" }), Fail, "row 1 missing",
			"move the file away"},
		{"not writable", change(func(h *filestore.Health) { h.NotWritable = store.ErrRefused }), Fail,
			"cannot be written",
			"right to write"},
	})
}

func TestKeys(t *testing.T) {
	facts := func(change func(*keyFacts)) map[string]Finding {
		f := keyFacts{prefix: "rl", looked: 100, total: 100, complete: true, limits: 10}
		change(&f)
		found := map[string]Finding{}
		for _, one := range judgeKeys(&f) {
			found[one.Check] = one
		}
		return found
	}
	many := func(n int) sample {
		var s sample
		for i := range n {
			s.add(fmt.Sprint("k", i))
		}
		return s
	}
	early := func(f *keyFacts) { f.complete, f.total = false, 1000 }
	uncounted := func(f *keyFacts) { f.total = 0 }
	few := facts(func(f *keyFacts) {
		early(f)
		f.noTTL, f.foreign, f.damaged = many(1), many(2), many(3)
	})
	checkVerdicts(t, []verdictTest{
		{"all", facts(func(*keyFacts) {})["keys"], OK, "10 limits among all 100 keys of the store", ""},
		{"stopped", facts(early)["keys"], OK, "stopped early: 10 limits among the 100 keys looked at", ""},
		{"no DBSIZE", facts(uncounted)["keys"], OK, "10 limits among all keys of the store", ""},
		{"ttl", facts(func(*keyFacts) {})["ttl"], OK, "every limit expires", ""},
		{"foreign, stopped", few["foreign"], Warn, "did not write among the 100 keys looked at: k0",
			"--prefix"},
		{"damaged, stopped", few["damaged"], Fail, "damaged among the 100 keys looked at, so that", "reset"},
	})
}

func TestTransport(t *testing.T) {
	far, near := []string{"10.0.0.1:6379"}, []string{"127.0.0.1:6379", "[::1]:6379", "localhost:6379"}
	judge := func(transport redisserver.Transport, nodes ...string) Finding {
		found := judgeTransport(transport, nodes, strings.ToLower)
		if len(found) == 0 {
			return Finding{Status: OK}
		}
		return found[0]
	}
	checkVerdicts(t, []verdictTest{
		{"no password", judge(redisserver.Transport{}, far...), OK, "", ""},
		{"near", judge(redisserver.Transport{LogsIn: true, PasswordTo: near}, near...), OK, "", ""},
		{"far nodes", judge(redisserver.Transport{LogsIn: true, PasswordTo: []string{"B:1"}}, "a:1", "a:1"), Warn,
			"unencrypted to a:1, b:1: ", "rediss"},
		{"a far Sentinel", judge(redisserver.Transport{PasswordTo: []string{"S:26379"}}, far...), Warn, "to s:26379: ",
			"rediss"},
		{"encrypted", judge(redisserver.Transport{TLS: true, LogsIn: true, PasswordTo: far}, far...), OK, "", ""},
		{"checked by nobody", judge(redisserver.Transport{TLS: true, Unchecked: true}), Warn,
			"certificate is not checked",
			"tls_ca"},
	})
}
