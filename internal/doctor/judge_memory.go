package doctor

import (
	"fmt"

	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

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
		f.Status = Warn
		f.Advice = "with noeviction takes are refused (exit code 4) once it is full: raise maxmemory, or see below what takes the memory"
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
