package redisserver

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/texts"
)

// Info is the answer to INFO, or to CLUSTER INFO: the values by the names of their fields.
type Info map[string]string

// ParseInfo reads an answer: "field:value" on each line.
func ParseInfo(text string) Info {
	fields := Info{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if name, value, found := strings.Cut(line, ":"); found && !strings.HasPrefix(line, "#") {
			fields[name] = value
		}
	}
	return fields
}

// Info calls INFO for those sections, by default the usual ones. It removes known secrets from the answer, since a
// name or a version can contain one.
func (s *Servers) Info(ctx context.Context, server redis.Cmdable, sections ...string) (Info, error) {
	text, err := server.Info(ctx, sections...).Result()
	if err != nil {
		return nil, err
	}
	return s.redactInfo(text), nil
}

// ClusterInfo calls CLUSTER INFO, and otherwise is like [Servers.Info].
func (s *Servers) ClusterInfo(ctx context.Context, server redis.Cmdable) (Info, error) {
	text, err := server.ClusterInfo(ctx).Result()
	if err != nil {
		return nil, err
	}
	return s.redactInfo(text), nil
}

func (s *Servers) redactInfo(text string) Info {
	fields := ParseInfo(text)
	for name, value := range fields {
		fields[name] = s.RedactField(value)
	}
	return fields
}

// harmless matches values that stay even if a secret is equal to one: numbers, addresses, and words of a server.
var harmless = texts.Regexp(`^([0-9.:-]*|master|slave|replica|ok|err|fail|up|down|yes|no|online|wait_bgsave|send_bulk|` +
	`noeviction|(allkeys|volatile)-(lru|lfu|ttl|random|lrm)|valkey|redis|standalone|cluster)$`)

// RedactField returns the value of a field or a setting without known secrets. Of a value with several parts it
// keeps the harmless ones, even if another part contains a secret that is too short to be replaced.
func (s *Servers) RedactField(value string) string {
	clean := func(text string) string {
		if harmless().MatchString(text) {
			return text
		}
		return s.Redact(text)
	}
	if whole := clean(value); whole != redact.Withheld {
		return whole
	}
	return partOfField().ReplaceAllStringFunc(value, clean)
}

var partOfField = texts.Regexp(`[^,= ]+`)

// Int returns a field that is a number, and 0 if it is not a number or missing.
func (i Info) Int(name string) int64 {
	n, _ := strconv.ParseInt(i[name], 10, 64)
	return n
}

// Replica is a replica as its master sees it.
type Replica struct {
	Address string // host:port
	State   string // "online" once it is in sync
	Behind  int64  // bytes of the master's changes that it has not confirmed
	Lag     int64  // seconds since its last confirmation
}

// Replicas parses "slave0:ip=127.0.0.1,port=7001,state=online,offset=14,lag=0" and the like.
func (i Info) Replicas() []Replica {
	var all []Replica
	for n := 0; ; n++ {
		value, found := i["slave"+strconv.Itoa(n)]
		if !found {
			return all
		}
		replica := parts(value)
		all = append(all, Replica{
			Address: replica["ip"] + ":" + replica["port"],
			State:   replica["state"],
			Behind:  max(0, i.Int("master_repl_offset")-replica.Int("offset")),
			Lag:     replica.Int("lag"),
		})
	}
}

// parts parses a value with several fields: "name=value,name=value".
func parts(value string) Info {
	fields := Info{}
	for field := range strings.SplitSeq(value, ",") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	return fields
}

// CommandUsage counts the calls of a command and their total time since the statistics began.
type CommandUsage struct{ Calls, Microseconds int64 }

// Commands parses "cmdstat_get:calls=21,usec=175,usec_per_call=8.33" and the like, by the name of the command in
// lower case. They are in the section "commandstats".
func (i Info) Commands() map[string]CommandUsage {
	commands := map[string]CommandUsage{}
	for name, value := range i {
		if command, is := strings.CutPrefix(name, "cmdstat_"); is {
			usage := parts(value)
			commands[strings.Clone(command)] = CommandUsage{usage.Int("calls"), usage.Int("usec")}
		}
	}
	return commands
}

// Version is the version of a server.
type Version struct {
	Product    string // "Redis" or "Valkey"
	Text       string // of the product, such as "7.0.15"
	RedisMajor int    // major version of the Redis that it is compatible with
	compatible string
}

// Version parses the version. Valkey also reports a Redis version, for old clients.
func (i Info) Version() Version {
	v := Version{Product: "Redis", Text: i["redis_version"], compatible: i["redis_version"]}
	major, _, _ := strings.Cut(v.compatible, ".")
	v.RedisMajor, _ = strconv.Atoi(major)
	if i["server_name"] == "valkey" || i["valkey_version"] != "" {
		v.Product, v.Text = "Valkey", i["valkey_version"]
	}
	return v
}

// String returns the product and its version, such as "Redis 7.0.15".
func (v Version) String() string {
	if v.Product == "Redis" {
		return "Redis " + v.Text
	}
	return v.Product + " " + v.Text + " (speaks Redis " + v.compatible + ")"
}
