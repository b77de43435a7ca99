package redisserver

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/lazyregexp"
	"github.com/limitctl/limitctl/internal/redact"
)

// Info is what a server answers to INFO, or a Cluster's node to CLUSTER INFO: the values
// by the names of their fields.
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

// Info asks a server for those sections of INFO, the usual ones without any. The answer is
// without the secrets that are known: a server can have one for a name or a version.
func (s *Servers) Info(ctx context.Context, server redis.Cmdable, sections ...string) (Info, error) {
	text, err := server.Info(ctx, sections...).Result()
	if err != nil {
		return nil, err
	}
	return s.redactInfo(text), nil
}

// ClusterInfo asks a server for CLUSTER INFO, as [Servers.Info] does for INFO.
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

// harmless are the values that stay as they are even when a secret is one of them: numbers,
// addresses, and the words of a server.
var harmless = lazyregexp.New(`^([0-9.:-]*|master|slave|replica|ok|err|fail|up|down|yes|no|online|wait_bgsave|send_bulk|` +
	`noeviction|(allkeys|volatile)-(lru|lfu|ttl|random|lrm)|valkey|redis|standalone|cluster)$`)

// RedactField returns the value of a field or of a setting without the secrets that are
// known. Of a value with several parts it leaves those that are harmless, even if another
// one holds a secret too short to be taken out.
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

var partOfField = lazyregexp.New(`[^,= ]+`)

// Int returns a field that is a number, and 0 if it is not one or is not there.
func (i Info) Int(name string) int64 {
	n, _ := strconv.ParseInt(i[name], 10, 64)
	return n
}

// Replica is one of a master's replicas, as the master sees it.
type Replica struct {
	Address string // host:port
	State   string // "online" once it is in step
	Behind  int64  // bytes of the master's changes that it has not confirmed
	Lag     int64  // seconds since it last did
}

// Replicas reads "slave0:ip=127.0.0.1,port=7001,state=online,offset=14,lag=0" and the like.
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

// parts reads a value that has fields of its own: "name=value,name=value".
func parts(value string) Info {
	fields := Info{}
	for field := range strings.SplitSeq(value, ",") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	return fields
}

// CommandUsage is how often a command ran since the statistics began, and how long in all.
type CommandUsage struct{ Calls, Microseconds int64 }

// Commands reads "cmdstat_get:calls=21,usec=175,usec_per_call=8.33" and the like, by the
// name of the command in lower case. They are in the section "commandstats".
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

// Version is that of a server.
type Version struct {
	Product    string // "Redis" or "Valkey"
	Text       string // of the product, such as "7.0.15"
	RedisMajor int    // major version of the Redis that it is compatible with
	compatible string
}

// Version reads the version. Valkey tells one of Redis, too, for old clients.
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
