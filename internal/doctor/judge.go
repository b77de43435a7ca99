package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// slowPing is the 99th percentile above which decisions are slow for the calls that they guard.
const slowPing = 5 * time.Millisecond

func judgeLatency(pings []time.Duration) Finding {
	pings = slices.Sorted(slices.Values(pings))
	at := func(percent int) time.Duration { return pings[min(len(pings)-1, len(pings)*percent/100)] }
	f := fine("reachable", "%d pings: p50 %s, p99 %s, max %s", len(pings), millis(at(50)), millis(at(99)),
		millis(pings[len(pings)-1]))
	if at(99) > slowPing {
		return warn(f.Check, f.Summary,
			fmt.Sprintf("each decision costs a round trip, and p99 is above %s: run callers nearer to the "+
				"server, look for slow commands (SLOWLOG GET) and a full CPU or network", millis(slowPing)))
	}
	return f
}

func millis(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000)
}

// judgeInfo judges a server by its INFO and its settings, as far as INFO has what that needs: a program that imitates
// Redis can leave out anything.
func judgeInfo(i, config redisserver.Info) (all []Finding) {
	var missing []string
	has := func(field string) bool {
		if i[field] == "" {
			missing = append(missing, field)
		}
		return i[field] != ""
	}
	if has("redis_version") {
		all = append(all, judgeVersion(i))
	}
	if has("aof_enabled") {
		all = append(all, judgePersistence(i, config))
	}
	if has("used_memory") {
		all = append(all, judgeMemory(i))
	}
	if i["maxmemory_policy"] != "" {
		all = append(all, judgeEviction(i))
	}
	if has("role") {
		all = append(all, judgeRole(i)...)
	}
	if missing != nil {
		all = append(all, warn("version", "cannot be checked: INFO does not have "+strings.Join(missing, ", "),
			"is it a Redis or Valkey? limitctl needs Redis 5 or later"))
	}
	return all
}

func judgeVersion(i redisserver.Info) Finding {
	switch v := i.Version(); {
	case v.RedisMajor < 5:
		return fail("version", v.String()+": too old",
			"limitctl's scripts need Redis 5 or later; upgrade, best to 7 or later")
	case v.RedisMajor < 7:
		return warn("version", v.String()+": no EVALSHA_RO, so a user who may only read cannot check",
			"upgrade to Redis 7 or later, or give users who check the rights to EVALSHA and EVAL (docs/operations.md)")
	default:
		return fine("version", "%s", v)
	}
}

// slowReplica is the delay of a replica at which a failover to it would hurt.
const slowReplica = 10 // seconds

// judgeRole judges the role of a server that gets takes, and its replicas.
func judgeRole(i redisserver.Info) []Finding {
	if i["role"] != "master" {
		return []Finding{fail("role",
			fmt.Sprintf("a replica of %s:%s: it refuses takes, refunds and resets", i["master_host"], i["master_port"]),
			"give the master's address, or redis+sentinel:// or redis+cluster://, which find it")}
	}
	all := i.Replicas()
	var late []string
	var behind, lag int64
	for _, r := range all {
		behind, lag = max(behind, r.Behind), max(lag, r.Lag)
		if r.Lag > slowReplica || r.State != "online" {
			late = append(late, r.Address)
		}
	}
	most := fmt.Sprintf("at most %s and %d s behind", output.Bytes(behind), lag)
	replicas := fine("replicas", "%d connected, %s", len(all), most)
	switch {
	case len(all) == 0:
		replicas = warn("replicas", "none: if this server fails, all usage is lost",
			"attach a replica that Sentinel or the Cluster can promote, or decide what callers do without a store "+
				"(--on-error)")
	case len(late) > 0:
		replicas = warn("replicas", fmt.Sprintf("%s of %d out of sync: %s; %s", output.Count(len(late), "replica"),
			len(all), strings.Join(late, ", "), most),
			"a failover now would lose the latest charges: look at the replica's log, load and network")
	}
	return []Finding{fine("role", "master"), replicas}
}

// skew is how far a server's clock is ahead of this machine's, and how inexact that is.
type skew struct {
	server     string
	ahead, off time.Duration
}

// Differences between masters' clocks from which on limits suffer.
const (
	skewed       = 100 * time.Millisecond
	farTooSkewed = time.Second
)

// judgeClocks compares the masters' clocks. This machine's clock decides nothing.
func judgeClocks(skews []skew) Finding {
	if len(skews) == 1 {
		return fine("clock", "%s (±%s); only the server's decides, and never runs backwards", aheadText(skews[0].ahead),
			millis(skews[0].off))
	}
	order := func(a, b skew) int { return cmp.Compare(a.ahead, b.ahead) }
	first, last := slices.MinFunc(skews, order), slices.MaxFunc(skews, order)
	between := last.ahead - first.ahead
	f := fine("clock", "masters differ by %s at most (±%s)", millis(between), millis(first.off+last.off))
	if between > skewed {
		f = warn("clock", f.Summary+fmt.Sprintf(": %s is ahead of %s", last.server, first.server),
			"run NTP on all masters: a limit is decided by the clock of its master, and its time never runs "+
				"backwards. "+
				"When it moves to a master whose clock is behind, its time stands still until that clock catches up")
	}
	if between > farTooSkewed {
		f.Status = Fail
	}
	return f
}

func aheadText(ahead time.Duration) string {
	if ahead < 0 {
		return "the server's is " + millis(-ahead) + " behind ours"
	}
	return "the server's is " + millis(ahead) + " ahead of ours"
}

// judgePersistence judges whether usage survives a restart, and whether a failed save makes the server refuse
// writes.
func judgePersistence(i, config redisserver.Info) Finding {
	const check = "persistence"
	const savesAdvice = "look at the server's log: usually its disk is full, or there is no memory to fork " +
		"(vm.overcommit_memory)"
	save, known := config["save"]
	aof, rdb := i["aof_enabled"] == "1", save != ""
	saveFailed := i["rdb_last_bgsave_status"] == "err"
	switch {
	case i["aof_last_write_status"] == "err":
		return fail(check, "the append-only file could not be written: takes are refused until it can be",
			"look at the server's log: usually its disk is full")
	case saveFailed && (rdb || !known) && config["stop-writes-on-bgsave-error"] != "no":
		return fail(check, "the last snapshot failed: takes are refused (stop-writes-on-bgsave-error)", savesAdvice)
	case saveFailed:
		return warn(check, "the last snapshot failed", savesAdvice)
	case aof && rdb:
		return fine(check, "append-only file and snapshots, both saved without errors")
	case aof:
		return fine(check, "append-only file, saved without errors")
	case rdb:
		return fine(check, "snapshots, the last without errors; a crash loses what was charged since")
	case !known:
		return warn(check, "no append-only file; whether there are snapshots cannot be known without CONFIG GET",
			"without both, a restart forgets all usage")
	}
	return warn(check,
		"neither snapshots nor an append-only file: a restart forgets all usage, and every limit starts at zero",
		"turn on appendonly (fsync everysec loses one second at most), or remember it before you restart the server")
}

// Shares of maxmemory, in percent, from which on the server will soon refuse takes.
const (
	nearlyFull = 80
	full       = 95
)

func judgeMemory(i redisserver.Info) Finding {
	used, most := i.Int("used_memory"), i.Int("maxmemory")
	if most == 0 {
		return warn("memory",
			output.Bytes(used)+" used, without a limit (maxmemory 0): the server can grow until the system kills it",
			"set maxmemory to what the machine has to spare, with noeviction")
	}
	share := 100 * float64(used) / float64(most)
	f := fine("memory", "%s of %s used (%.0f %%), %s left", output.Bytes(used), output.Bytes(most), share,
		output.Bytes(max(0, most-used)))
	if i["maxmemory_policy"] != "noeviction" || share < nearlyFull { // others make room
		return f
	}
	f.Status = map[bool]Status{true: Fail, false: Warn}[share >= full]
	f.Advice = "with noeviction takes are refused (exit code 4) " + map[bool]string{true: "until there is room",
		false: "once it is full"}[share >= 100] + ": raise maxmemory, or delete what takes the memory"
	return f
}

// judgeEviction judges whether a lack of memory can delete usage.
func judgeEviction(i redisserver.Info) Finding {
	const check = "eviction"
	const advice = "choose noeviction, which refuses takes instead; other policies are safe only if the server " +
		"holds nothing but limits and never reaches maxmemory (a separate database does not help)"
	policy, ever := i["maxmemory_policy"], i.Int("evicted_keys")
	evicted := output.Count(int(ever), "key was", "keys were") + " evicted since the server started"
	switch {
	case policy == "noeviction" && ever == 0:
		return fine(check, "noeviction: no usage is lost when memory is full")
	case policy == "noeviction":
		return warn(check, "noeviction, but "+evicted+", under another policy",
			"nothing more is evicted; CONFIG RESETSTAT ends this warning")
	case ever > 0:
		return fail(check, policy+": "+evicted+"; limits among them are forgotten and let too much through",
			"raise maxmemory, then "+advice+"; CONFIG RESETSTAT sets the count to 0")
	}
	return warn(check, policy+" evicts limits once memory is full, which forgets what was used", advice)
}
