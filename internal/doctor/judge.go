package doctor

import (
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
	p50, p99, most := at(50), at(99), pings[len(pings)-1]
	f := Finding{
		Check: "reachable", Status: OK,
		Summary: fmt.Sprintf("%d pings: p50 %s, p99 %s, max %s", len(pings), millis(p50), millis(p99), millis(most)),
		Data: map[string]any{"pings": len(pings), "p50_us": p50.Microseconds(), "p99_us": p99.Microseconds(),
			"max_us": most.Microseconds()},
	}
	if p99 > slowPing {
		f.Status = Warn
		f.Advice = fmt.Sprintf("each decision costs a round trip, and p99 is above %s: run callers nearer to the server, look for slow "+
			"commands (SLOWLOG GET) and a full CPU or network", millis(slowPing))
	}
	return f
}

func millis(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000)
}

// judgeInfo judges a server by its INFO and its settings, as far as INFO has what that needs: a program that imitates Redis can
// leave out anything.
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
		all = append(all, judgeRole(i, config)...)
	}
	if missing != nil {
		all = append(all, Finding{Check: "version", Status: Warn, Data: map[string]any{"missing": missing},
			Summary: "cannot be checked: INFO does not have " + strings.Join(missing, ", "),
			Advice:  "is it a Redis or Valkey? limitctl needs Redis 5 or later"})
	}
	return all
}

func judgeVersion(i redisserver.Info) Finding {
	v := i.Version()
	f := Finding{Check: "version", Status: OK, Summary: v.String(),
		Data: map[string]any{"product": strings.ToLower(v.Product), "version": v.Text, "redis_version": i["redis_version"]}}
	switch {
	case v.RedisMajor < 5:
		f.Status = Fail
		f.Summary += ": too old"
		f.Advice = "limitctl's scripts need Redis 5 or later; upgrade, best to 7 or later"
	case v.RedisMajor < 7:
		f.Status = Warn
		f.Summary += ": no EVALSHA_RO, so a user who may only read cannot check"
		f.Advice = "upgrade to Redis 7 or later, or give users who check the rights to EVALSHA and EVAL (docs/operations.md)"
	}
	return f
}

// slowReplica is the delay of a replica at which a failover to it would hurt.
const slowReplica = 10 // seconds

// judgeRole judges the role of a server that gets takes, and its replicas. config are its settings, empty if they
// could not be read.
func judgeRole(i, config redisserver.Info) []Finding {
	if i["role"] != "master" {
		return []Finding{{Check: "role", Status: Fail, Summary: fmt.Sprintf("a replica of %s:%s: it refuses takes, refunds and resets",
			i["master_host"], i["master_port"]),
			Advice: "give the master's address, or redis+sentinel:// or redis+cluster://, which find it",
			Data: map[string]any{"role": i["role"], "master": i["master_host"] + ":" + i["master_port"],
				"master_link": i["master_link_status"]}}}
	}
	role := Finding{Check: "role", Status: OK, Summary: "master", Data: map[string]any{"role": "master"}}
	all := i.Replicas()
	replicas := Finding{Check: "replicas", Status: OK, Data: map[string]any{"connected": len(all)}}
	var late []string
	var behind, lag int64
	for _, r := range all {
		behind, lag = max(behind, r.Behind), max(lag, r.Lag)
		if r.Lag > slowReplica || r.State != "online" {
			late = append(late, r.Address)
		}
	}
	most := fmt.Sprintf("at most %s and %d s behind", output.Bytes(behind), lag)
	switch {
	case len(all) == 0:
		replicas.Status, replicas.Summary = Warn, "none: if this server fails, all usage is lost"
		replicas.Advice = "attach a replica that Sentinel or the Cluster can promote, or decide what callers do without a store " +
			"(--on-error)"
	case len(late) > 0:
		replicas.Status = Warn
		replicas.Summary = fmt.Sprintf("%s of %d out of sync: %s; %s", output.Plural(len(late), "replica"), len(all),
			strings.Join(late, ", "), most)
		replicas.Advice = "a failover now would lose the latest charges: look at the replica's log, load and network"
	default:
		replicas.Summary = fmt.Sprintf("%d connected, %s", len(all), most)
		if minReplicas := config["min-replicas-to-write"]; minReplicas != "" {
			replicas.Summary += "; min-replicas-to-write " + minReplicas
		}
	}
	return []Finding{role, replicas}
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
	first, last := skews[0], skews[0]
	data := map[string]any{}
	for _, s := range skews {
		if s.ahead < first.ahead {
			first = s
		}
		if s.ahead > last.ahead {
			last = s
		}
		data[s.server] = s.ahead.Microseconds()
	}
	f := Finding{Check: "clock", Status: OK, Data: map[string]any{"ahead_of_client_us": data,
		"uncertainty_us": max(first.off, last.off).Microseconds()}}
	if len(skews) == 1 {
		f.Summary = aheadText(first.ahead) + " (±" + millis(first.off) + "); only the server's decides, and never runs backwards"
		return f
	}
	between := last.ahead - first.ahead
	f.Data["between_masters_us"] = between.Microseconds()
	f.Summary = fmt.Sprintf("masters differ by %s at most (±%s)", millis(between), millis(first.off+last.off))
	if between > skewed {
		f.Status = Warn
		f.Summary += fmt.Sprintf(": %s is ahead of %s", last.server, first.server)
		f.Advice = "run NTP on all masters: a limit is decided by the clock of its master, and its time never runs backwards. " +
			"When it moves " +
			"to a master whose clock is behind, its time stands still until that clock catches up"
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
	save, known := config["save"]
	aof, rdb := i["aof_enabled"] == "1", save != ""
	saveFailed := i["rdb_last_bgsave_status"] == "err"
	f := Finding{Check: "persistence", Status: OK, Data: map[string]any{
		"aof": aof, "aof_last_write_status": i["aof_last_write_status"],
		"rdb_last_bgsave_status": i["rdb_last_bgsave_status"], "rdb_last_save_time": i.Int("rdb_last_save_time")}}
	if known {
		f.Data["rdb"] = rdb
	}
	const savesAdvice = "look at the server's log: usually its disk is full, or there is no memory to fork (vm.overcommit_memory)"
	switch {
	case i["aof_last_write_status"] == "err":
		f.Status, f.Summary = Fail, "the append-only file could not be written: takes are refused until it can be"
		f.Advice = "look at the server's log: usually its disk is full"
	case saveFailed && (rdb || !known) && config["stop-writes-on-bgsave-error"] != "no":
		f.Status, f.Summary = Fail, "the last snapshot failed: takes are refused (stop-writes-on-bgsave-error)"
		f.Advice = savesAdvice
	case saveFailed:
		f.Status, f.Summary, f.Advice = Warn, "the last snapshot failed", savesAdvice
	case aof && rdb:
		f.Summary = "append-only file and snapshots, both saved without errors"
	case aof:
		f.Summary = "append-only file, saved without errors"
	case rdb:
		f.Summary = "snapshots, the last without errors; a crash loses what was charged since"
	case !known:
		f.Status, f.Summary = Warn, "no append-only file; whether there are snapshots cannot be known without CONFIG GET"
		f.Advice = "without both, a restart forgets all usage"
	default:
		f.Status, f.Summary = Warn, "neither snapshots nor an append-only file: a restart forgets all usage, and every limit starts at zero"
		f.Advice = "turn on appendonly (fsync everysec loses one second at most), or remember it before you restart the server"
	}
	return f
}

// Shares of maxmemory from which on the server will soon refuse takes.
const (
	nearlyFull = 0.80
	full       = 0.95
)

func judgeMemory(i redisserver.Info) Finding {
	used, most := i.Int("used_memory"), i.Int("maxmemory")
	f := Finding{Check: "memory", Status: OK, Data: map[string]any{"used_bytes": used, "maxmemory_bytes": most}}
	if most == 0 {
		f.Status = Warn
		f.Summary = output.Bytes(used) + " used, without a limit (maxmemory 0): the server can grow until the system kills it"
		f.Advice = "set maxmemory to what the machine has to spare, with noeviction"
		return f
	}
	share := float64(used) / float64(most)
	f.Data["share"] = share
	f.Summary = fmt.Sprintf("%s of %s used (%.0f %%), %s left", output.Bytes(used), output.Bytes(most), share*100,
		output.Bytes(max(0, most-used)))
	if i["maxmemory_policy"] != "noeviction" {
		return f // it makes room
	}
	if share >= nearlyFull {
		refused := map[bool]string{true: "until there is room", false: "once it is full"}[share >= 1]
		f.Status = Warn
		f.Advice = "with noeviction takes are refused (exit code 4) " + refused + ": raise maxmemory, or see below what takes the memory"
	}
	if share >= full {
		f.Status = Fail
	}
	return f
}

// judgeEviction judges whether a lack of memory can delete usage.
func judgeEviction(i redisserver.Info) Finding {
	policy, ever := i["maxmemory_policy"], i.Int("evicted_keys")
	const advice = "choose noeviction, which refuses takes instead; other policies are safe only if the server holds nothing but limits " +
		"and never reaches maxmemory (a separate database does not help)"
	f := Finding{Check: "eviction", Status: OK, Summary: "noeviction: no usage is lost when memory is full",
		Data: map[string]any{"policy": policy, "evicted_keys": ever}}
	evicted := fmt.Sprintf("%s evicted since the server started", output.Counted(int(ever), "key was", "keys were"))
	switch {
	case policy == "noeviction" && ever == 0:
	case policy == "noeviction":
		f.Status, f.Summary = Warn, "noeviction, but "+evicted+", under another policy"
		f.Advice = "nothing more is evicted; CONFIG RESETSTAT ends this warning"
	case ever > 0:
		f.Status, f.Summary = Fail, policy+": "+evicted+"; limits among them are forgotten and let too much through"
		f.Advice = "raise maxmemory, then " + advice + "; CONFIG RESETSTAT sets the count to 0"
	default:
		f.Status, f.Summary = Warn, policy+" evicts limits once memory is full, which forgets what was used"
		f.Advice = advice
	}
	return f
}
