package cost

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// reading is a reading of a master's counters.
type reading struct {
	address  string
	run      string // its run id
	server   string // product and version
	hasBytes bool
	in, out  int64 // bytes from and to clients
	size     int64 // bytes of the answer with this reading
	commands map[string]redisserver.CommandUsage
}

// infoRequest is the request for a reading: all sections, since servers before Redis 7 accept one section or all,
// and the counters must be from one instant.
const infoRequest = "*2\r\n$4\r\ninfo\r\n$3\r\nall\r\n"

// read reads the counters of every master.
func (m *Meter) read(ctx context.Context) ([]reading, error) {
	var mu sync.Mutex
	var readings []reading
	err := m.servers.EachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		text, err := master.Info(ctx, "all").Result()
		address := ""
		if m.servers.IsCluster() {
			address = master.Options().Addr
		}
		mu.Lock()
		defer mu.Unlock()
		readings = append(readings, parse(address, text))
		return err
	})
	return readings, err
}

// parse parses the answer to INFO.
func parse(address, text string) reading {
	info := redisserver.ParseInfo(text)
	r := reading{address: address, commands: info.Commands()}
	// A verbatim string begins with its format: =LENGTH, txt:…
	r.size = int64(len("=\r\ntxt:\r\n") + len(strconv.Itoa(len("txt:")+len(text))) + len(text))
	r.run = strings.Clone(info["run_id"]) // so that it does not keep the whole text in memory
	if version := info.Version(); version.Text != "" {
		r.server = version.Product + " " + version.Text
	}
	_, r.hasBytes = info["total_net_input_bytes"]
	r.in = info.Int("total_net_input_bytes")
	// From Redis 7 on, traffic to replicas is in the total and also separate. Before, it counts as traffic to
	// clients.
	r.out = info.Int("total_net_output_bytes") - info.Int("total_net_repl_output_bytes")
	return r
}

// taken is the difference of two readings of all masters.
type taken struct {
	// Redis counts a command in a script under its own name, as if a client had sent it, and includes its time
	// again in that of the script. So the scripts' time is that of whole decisions, and the time of their commands
	// must not be added; the number of calls must.
	scripts, plain redisserver.CommandUsage
	// other counts the calls that belong neither to decisions nor to the upkeep of clients, monitors and nodes.
	other    int64
	hasBytes bool
	in, out  int64
}

// between adds the differences of all masters. problem says why that is impossible.
func between(before, after []reading) (t taken, problem string) {
	earlier := map[string]reading{}
	for _, r := range before {
		earlier[r.address] = r
	}
	t.hasBytes = true
	for _, r := range after {
		b, known := earlier[r.address]
		if !known || len(before) != len(after) {
			return taken{}, "the masters changed meanwhile"
		}
		if b.run != r.run {
			return taken{}, named(r.address) + " was restarted, or another server took its place"
		}
		for command, now := range r.commands {
			then := b.commands[command]
			used := redisserver.CommandUsage{Calls: now.Calls - then.Calls, Microseconds: now.Microseconds - then.Microseconds}
			if used.Calls < 0 {
				return taken{}, named(r.address) + " had its statistics reset meanwhile"
			}
			t.add(command, used)
		}
		// The answer of the first reading and the request of the second are in between.
		t.hasBytes = t.hasBytes && b.hasBytes && r.hasBytes
		t.in += max(0, r.in-b.in-int64(len(infoRequest)))
		t.out += max(0, r.out-b.out-b.size)
	}
	return t, ""
}

func named(address string) string {
	if address == "" {
		return "the server"
	}
	return fmt.Sprintf("the server at %s", address)
}

func (t *taken) add(command string, used redisserver.CommandUsage) {
	switch kindOf(command) {
	case script:
		t.scripts.Calls += used.Calls
		t.scripts.Microseconds += used.Microseconds
	case plain:
		t.plain.Calls += used.Calls
		t.plain.Microseconds += used.Microseconds
	default:
		if !isUpkeep(command) {
			t.other += used.Calls
		}
	}
}

// isUpkeep reports whether a command is for the upkeep of connections of clients, monitors, replicas, Sentinels and
// nodes: there are few of these, under any traffic.
func isUpkeep(command string) bool {
	name, _, _ := strings.Cut(command, "|")
	switch name {
	case "info", "ping", "hello", "auth", "select", "client", "command", "cluster", "asking", "readonly",
		"publish", "subscribe", "replconf", "psync", "role", "config", "acl":
		return true
	}
	return false
}
