package doctor

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

// info is a server's answer to INFO, or that of a Cluster's node to CLUSTER INFO:
// "field:value" on each line.
type info map[string]string

// redactedInfo is parseInfo without the secrets that the store knows: a server can have
// one for a name or a version.
func redactedInfo(text string, store *redisstore.Store) info {
	fields := parseInfo(text)
	for name, value := range fields {
		fields[name] = redactField(value, store)
	}
	return fields
}

// harmless is what fields hold that is judged, and no more a secret for being one as
// well: numbers, addresses, and the words of a server.
var harmless = regexp.MustCompile(`^([0-9.:-]*|master|slave|replica|ok|err|fail|up|down|yes|no|online|wait_bgsave|send_bulk|` +
	`noeviction|(allkeys|volatile)-(lru|lfu|ttl|random|lrm)|valkey|redis|standalone|cluster)$`)

// redactField leaves of a field with several parts those that are harmless, even if it
// has a secret too short to be taken out.
func redactField(value string, store *redisstore.Store) string {
	clean := func(text string) string {
		if harmless.MatchString(text) {
			return text
		}
		return store.Redact(text)
	}
	if whole := clean(value); whole != redact.Withheld {
		return whole
	}
	return partOfField.ReplaceAllStringFunc(value, clean)
}

var partOfField = regexp.MustCompile(`[^,= ]+`)

func parseInfo(text string) info {
	fields := info{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if name, value, found := strings.Cut(line, ":"); found && !strings.HasPrefix(line, "#") {
			fields[name] = value
		}
	}
	return fields
}

// number returns a field that is a number, 0 if there is none.
func (i info) number(name string) int64 {
	n, _ := strconv.ParseInt(i[name], 10, 64)
	return n
}

// replica is one of a master's replicas, as the master sees it.
type replica struct {
	address string
	state   string // "online" once it is in step
	behind  int64  // bytes of the master's changes that it has not confirmed
	lag     int64  // seconds since it last did
}

// replicas reads "slave0:ip=127.0.0.1,port=7001,state=online,offset=14,lag=0".
func (i info) replicas() []replica {
	var all []replica
	for n := 0; ; n++ {
		line, found := i["slave"+strconv.Itoa(n)]
		if !found {
			return all
		}
		fields := info{}
		for field := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		all = append(all, replica{
			address: fields["ip"] + ":" + fields["port"],
			state:   fields["state"],
			behind:  max(0, i.number("master_repl_offset")-fields.number("offset")),
			lag:     fields.number("lag"),
		})
	}
}

// version is that of a server: Valkey tells one of Redis, too, for old clients.
type version struct {
	product     string
	text        string
	major       int // of the Redis that it is compatible with
	description string
}

func (i info) version() version {
	v := version{product: "Redis", text: i["redis_version"]}
	major, _, _ := strings.Cut(v.text, ".")
	v.major, _ = strconv.Atoi(major)
	v.description = "Redis " + v.text
	if i["server_name"] == "valkey" || i["valkey_version"] != "" {
		v.product, v.text = "Valkey", i["valkey_version"]
		v.description = "Valkey " + v.text + " (speaks Redis " + i["redis_version"] + ")"
	}
	return v
}
