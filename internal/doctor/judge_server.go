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
	minReplicas := config["min-replicas-to-write"]
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
	if minReplicas != "" {
		replicas.Data["min_replicas_to_write"] = minReplicas
	}
	if len(all) == 0 {
		replicas.Status = Warn
		replicas.Summary = "none: if this server fails, all usage is lost"
		replicas.Advice = "attach a replica that Sentinel or the Cluster can promote, or decide what callers do without a store " +
			"(--on-error)"
		return []Finding{role, replicas}
	}
	var late []string
	var details []map[string]any
	var behind, lag int64
	for _, r := range all {
		behind, lag = max(behind, r.Behind), max(lag, r.Lag)
		if r.Lag > slowReplica || r.State != "online" {
			late = append(late, r.Address)
		}
		details = append(details, map[string]any{"address": r.Address, "state": r.State, "behind_bytes": r.Behind, "lag_seconds": r.Lag})
	}
	replicas.Data["replicas"] = details
	replicas.Summary = fmt.Sprintf("%d connected, at most %s and %d s behind", len(all), output.Bytes(behind), lag)
	if minReplicas != "" {
		replicas.Summary += "; min-replicas-to-write " + minReplicas
	}
	if len(late) > 0 {
		replicas.Status = Warn
		replicas.Summary = fmt.Sprintf("%s of %d out of sync: %s; at most %s and %d s behind",
			output.Plural(len(late), "replica"), len(all), strings.Join(late, ", "), output.Bytes(behind), lag)
		replicas.Advice = "a failover now would lose the latest charges: look at the replica's log, load and network"
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
