// Package redisserver is what limitctl knows about Redis servers apart from deciding limits: their URLs, bounds of
// their answers, which masters there are, how to scan their keys at a bounded pace, how the slots of a Cluster move,
// what INFO says, which rights a user needs, and what an error means.
//
// Of limits it knows only their errors and the prefix of their keys.
package redisserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/texts"
)

// Servers is the server or the Cluster behind a client.
type Servers struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil for a single server
	address string               // for messages, without secrets
	prefix  string
	secrets *redact.Secrets // for errors
	closed  atomic.Bool     // see Close
}

// New returns the servers behind client, and does not connect to them. Errors name prefix, which may be empty, and
// contain neither the password of client nor secrets.
func New(client redis.UniversalClient, prefix string, secrets ...string) *Servers {
	address, _, password := settingsOf(client)
	s := &Servers{client: client, prefix: prefix, secrets: redact.New(password)}
	s.cluster, _ = client.(*redis.ClusterClient)
	s.secrets.Add(secrets...)
	s.address = s.secrets.Text(address) // a Cluster can give its nodes any names
	return s
}

// Close notes that the client may be closed: a failed call is now a [store.ErrClosed], unless it may have changed
// something.
func (s *Servers) Close() { s.closed.Store(true) }

// isClosed reports whether err is a consequence of Close, or of a client that its owner has closed. In a Cluster
// the client itself closes the clients of nodes that leave.
func (s *Servers) isClosed(err error) bool {
	_, single := s.client.(*redis.Client)
	return s.closed.Load() || single && errors.Is(err, redis.ErrClosed)
}

// IsCluster reports whether it is a Cluster.
func (s *Servers) IsCluster() bool { return s.cluster != nil }

// settingsOf returns the address of client for messages, and how it logs in.
func settingsOf(client redis.UniversalClient) (address, user, password string) {
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		return o.Addr, o.Username, o.Password
	case *redis.ClusterClient:
		o := c.Options()
		return strings.Join(o.Addrs, ","), o.Username, o.Password
	}
	return "its address", "", ""
}

// User returns the name with which client logs in, for messages about its rights.
func User(client redis.UniversalClient) string {
	_, user, _ := settingsOf(client)
	return cmp.Or(user, "default")
}

// Redact returns a text of the server, such as a field of INFO, without known secrets and with a readable length.
func (s *Servers) Redact(text string) string { return s.secrets.Answer(text) }

// ServerOf returns the server that has a key.
func (s *Servers) ServerOf(ctx context.Context, storeKey string) (redis.Cmdable, error) {
	if s.cluster != nil {
		return s.cluster.MasterForKey(ctx, storeKey)
	}
	return s.client, nil
}

// mostMasters is the most masters of a Cluster that are called, which is the most that Redis recommends.
const mostMasters = 1000

// EachMaster calls do concurrently with every master, or with the one server without a Cluster. It returns the first
// error of do, and calls do for the others in any case. A Cluster that names no masters or too many is an error.
func (s *Servers) EachMaster(ctx context.Context, do func(ctx context.Context, master *redis.Client) error) error {
	if s.cluster == nil {
		single, is := s.client.(*redis.Client)
		if !is {
			return errors.New("a client of a kind that is not known")
		}
		return do(ctx, single)
	}
	var named atomic.Int64
	failed := s.cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) (err error) {
		defer panics.Catch(&err) // the goroutine belongs to the client
		if named.Add(1) > mostMasters {
			return nil
		}
		return do(ctx, master)
	})
	switch n := named.Load(); {
	case n > mostMasters:
		return &answerError{fmt.Sprintf("it names %d masters of the Cluster, and one has at most %d", n, mostMasters)}
	case n == 0 && failed == nil:
		return &answerError{"it names no masters of the Cluster"}
	case n == 0:
		return &DiscoveryError{failed}
	}
	return failed
}

// Masters returns every master in the order of their addresses.
func (s *Servers) Masters(ctx context.Context) ([]*redis.Client, error) {
	var mu sync.Mutex
	var masters []*redis.Client
	err := s.EachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, master)
		return nil
	})
	slices.SortFunc(masters, byAddress)
	return masters, err
}

// Nodes returns the addresses of all nodes of a Cluster that the client knows, including replicas, and nothing for
// a single server.
func (s *Servers) Nodes(ctx context.Context) (addresses []string) {
	if s.cluster == nil {
		return nil
	}
	var mu sync.Mutex
	s.cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		addresses = append(addresses, node.Options().Addr)
		return nil
	})
	return addresses
}

func byAddress(a, b *redis.Client) int { return strings.Compare(a.Options().Addr, b.Options().Addr) }

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

// Info reads what INFO or CLUSTER INFO has answered. It removes known secrets from the answer, since a name or a
// version can contain one. An error is that of the command.
func (s *Servers) Info(answer *redis.StringCmd) (Info, error) {
	fields := ParseInfo(answer.Val())
	for name, value := range fields {
		fields[name] = s.RedactField(value)
	}
	return fields, answer.Err()
}

// harmless matches values that stay even if a secret is equal to one: numbers, addresses, and words of a server.
var harmless = texts.Regexp(`^([0-9.:-]*|master|slave|replica|ok|err|fail|up|down|yes|no|online|wait_bgsave|` +
	`send_bulk|noeviction|(allkeys|volatile)-(lru|lfu|ttl|random|lrm)|valkey|redis|standalone|cluster)$`)

// RedactField returns the value of a field or a setting without known secrets.
func (s *Servers) RedactField(value string) string {
	if harmless().MatchString(value) {
		return value
	}
	return s.Redact(value)
}

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
