package cost

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
)

// reading is what a master's counters show.
type reading struct {
	address  string
	run      string // which start of the server it is
	server   string // product and version
	hasBytes bool
	in, out  int64 // bytes from and to clients
	size     int64 // bytes of the answer that this was read from
	commands map[string]redisserver.CommandUsage
}

// infoRequest is what asks for a reading: everything, since servers before Redis 7
// take one section or all, and the counters are to be of one instant.
const infoRequest = "*2\r\n$4\r\ninfo\r\n$3\r\nall\r\n"

// read asks every master.
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

// parse reads the answer to INFO.
func parse(address, text string) reading {
	info := redisserver.ParseInfo(text)
	r := reading{address: address, commands: info.Commands()}
	// A verbatim string has its format before it: =LENGTH, txt:…
	r.size = int64(len("=\r\ntxt:\r\n") + len(strconv.Itoa(len("txt:")+len(text))) + len(text))
	r.run = strings.Clone(info["run_id"]) // so that it does not hold all of the text
	if version := info.Version(); version.Text != "" {
		r.server = version.Product + " " + version.Text
	}
	_, r.hasBytes = info["total_net_input_bytes"]
	r.in = info.Int("total_net_input_bytes")
	// From Redis 7 on what goes to replicas is in the total and by itself, too. Before,
	// it counts as if it went to clients.
	r.out = info.Int("total_net_output_bytes") - info.Int("total_net_repl_output_bytes")
	return r
}

// taken is what went on between two readings of all masters.
type taken struct {
	// Redis counts a command that a script calls under its own name, as if a client
	// had sent it, and the time it took once more in that of the script. So the
	// scripts' time is that of whole decisions, and what they call is not to be
	// added; calls are to be.
	scripts, plain redisserver.CommandUsage
	// other is the calls that are not part of decisions, and not of what
	// clients, monitors and nodes do to stay in touch.
	other    int64
	hasBytes bool
	in, out  int64
}

// between sums up all masters. problem says why that cannot be done.
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
		// The first reading's answer was sent, and the second one's request
		// received, in between.
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

// isUpkeep reports whether a command is one by which clients, monitors, replicas,
// Sentinels and nodes stay in touch: few of these are sent, under any traffic.
func isUpkeep(command string) bool {
	name, _, _ := strings.Cut(command, "|")
	switch name {
	case "info", "ping", "hello", "auth", "select", "client", "command", "cluster", "asking", "readonly",
		"publish", "subscribe", "replconf", "psync", "role", "config", "acl":
		return true
	}
	return false
}
