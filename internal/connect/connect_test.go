package connect

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// files is a file system for the files in URLs.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	content, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(content), nil
}

func options(f files) Options {
	return Options{Prefix: "rl", Timeout: 2 * time.Second, Password: "from-env", ReadFile: f.read}
}

// opened is the result of a URL.
type opened struct {
	addrs, user, password, where string
	db                           int
	tls, cluster                 bool
}

func open(t *testing.T, url string) opened {
	t.Helper()
	backend, client, where, err := OpenWithClient(url, options(nil))
	if err != nil {
		t.Errorf("%s: %v", url, err)
		return opened{}
	}
	defer backend.Close()
	switch c := client.(type) {
	case *redis.ClusterClient:
		o := c.Options()
		if o.RouteByLatency || o.RouteRandomly || o.ReadOnly {
			t.Errorf("%s reads from replicas", url)
		}
		return opened{strings.Join(o.Addrs, ","), o.Username, o.Password, where, 0, o.TLSConfig != nil, true}
	case *redis.Client:
		o := c.Options()
		if o.MaxRetries > 0 || o.DialTimeout != 2*time.Second || o.ReadTimeout != 2*time.Second ||
			!o.ContextTimeoutEnabled {
			t.Errorf("%s: retries %d, timeouts %s and %s", url, o.MaxRetries, o.DialTimeout, o.ReadTimeout)
		}
		return opened{o.Addr, o.Username, o.Password, where, o.DB, o.TLSConfig != nil, false}
	}
	t.Fatalf("%s is a %T", url, client)
	return opened{}
}

func TestRedisURLs(t *testing.T) {
	for url, want := range map[string]opened{
		"redis://h":              {addrs: "h:6379", password: "from-env", where: "redis://h"},
		"redis://h:1/2":          {addrs: "h:1", password: "from-env", where: "redis://h:1/2", db: 2},
		"redis://u:pa+s%40%2f@h": {addrs: "h:6379", user: "u", password: "pa+s@/", where: "redis://u:xxxxx@h"},
		"redis://:p@ss@h":        {addrs: "h:6379", password: "p@ss", where: "redis://:xxxxx@h"},
		"rediss://[::1]:1":       {addrs: "[::1]:1", password: "from-env", where: "rediss://[::1]:1", tls: true},
		"redis://[fe80::1%25eth0]": {addrs: "[fe80::1%eth0]:6379", password: "from-env",
			where: "redis://[fe80::1%25eth0]"},
		"unix:///run/a%20b?db=3": {addrs: "/run/a b", password: "from-env", where: "unix:///run/a%20b?db=3", db: 3},
		"unix://u:p@/s":          {addrs: "/s", user: "u", password: "p", where: "unix://u:xxxxx@/s"},
		"redis+cluster://h:1":    {addrs: "h:1", password: "from-env", where: "redis+cluster://h:1", cluster: true},
		"redis+cluster://u:p@h,[::1],i": {addrs: "h:6379,[::1]:6379,i:6379", user: "u", password: "p",
			where: "redis+cluster://u:xxxxx@h,[::1],i", cluster: true},
		"valkey://u:p@h/2": {addrs: "h:6379", user: "u", password: "p", where: "valkey://u:xxxxx@h/2", db: 2},
		"rediss+cluster://[::1]:2,h:1/": {
			addrs: "[::1]:2,h:1", password: "from-env", where: "rediss+cluster://[::1]:2,h:1/", cluster: true,
			tls: true},
		"redis+sentinel://h/m": {addrs: "m by Sentinel h:26379", password: "from-env", where: "redis+sentinel://h/m"},
		"redis+sentinel://u:p@h:1,i/m/3?sentinel_username=w&sentinel_password=a+b": {
			addrs: "m by Sentinel h:1,i:26379", user: "u", password: "p", db: 3,
			where: "redis+sentinel://u:xxxxx@h:1,i/m/3"},
		"redis+sentinel://[::1]:1,[::2]/my%2Fm?sentinel_password=p": {
			addrs: "my/m by Sentinel [::1]:1,[::2]:26379", password: "from-env",
			where: "redis+sentinel://[::1]:1,[::2]/my%2Fm"},
	} {
		if got := open(t, url); got != want {
			t.Errorf("%s\n got %+v\nwant %+v", url, got, want)
		}
	}
}

const secret = "hunter2"

func TestBadURLs(t *testing.T) {
	f := files{"text": "no certificate", "a.pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}
	for _, test := range []struct{ want, urls string }{
		{"it does not name a host; write redis://[user[:password]@]host[:port][/db]", "redis://"},
		{"it does not name a host", "redis://:hunter2@ redis+sentinel:hunter2@h"},
		{"it names several hosts; write redis+cluster:// for a Cluster, redis+sentinel:// for Sentinels",
			"redis://h1,h2"},
		{"its database is not a number; write redis://", "redis://:hunter2@h/db"},
		{"its database is not a number", "redis://h/-1 redis+sentinel://h/m/x redis+sentinel://h/m/1/2"},
		{"it names a database twice", "redis://h/1?db=1"},
		{"a port is not a number from 1 to 65535; write redis://[user[:password]@]host[:port][/db]",
			"redis://user:hunter2"},
		{"a port is not a number from 1 to 65535",
			"redis://h:0 redis://h:65536 redis+cluster://h,user:hunter2 " +
				"redis+sentinel://u:hunter2@h,i:x/m?tls_insecure=1"},
		{"a host or its port is wrong",
			"redis://h: redis://::1 redis://[h] redis://[::1 redis://[::1]x redis+cluster://h, redis+cluster://h,,i"},
		{"it cannot be read; write redis://[user[:password]@]host[:port][/db], special characters of the " +
			"password as %XX",
			"redis://:hunter2%zz@h"},
		{"it cannot be read",
			"redis://:hunter2#x@h redis://user:12/hunter2@h redis://user:12?hunter2@h " +
				"redis://user:12?hunter2=x@h redis+cluster://u:12,hunter2/x@h " +
				"redis+sentinel://h/m?sentinel_password=a@h redis+sentinel://h/m?sentinel_password=%zz " +
				"redis+sentinel://h/m?sentinel_password=hunter2#"},
		{`its option "max_retries" is unknown; known are db, tls_ca, tls_cert, tls_key, tls_server_name, ` +
			`tls_insecure`,
			"redis://h?max_retries=3"},
		{"it does not name a socket by its absolute path; write unix://", "unix://s"},
		{"a Cluster has no databases", "redis+cluster://h/0"},
		{`its option "db" is unknown; known are tls_ca`, "redis+cluster://h?db=1"},
		{"it does not name a master; write " +
			"redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/MASTER[/db]",
			"redis+sentinel://h"},
		{"it does not name a master", "redis+sentinel://h/ redis+sentinel://h//1"},
		{`its option "sentinel_user" is unknown; known are sentinel_username, sentinel_password, tls_ca`,
			"redis+sentinel://h/m?sentinel_user=w"},
		{"sentinel_username needs sentinel_password", "redis+sentinel://h/m?sentinel_username=w"},
		{"one of its options is unknown; known are sentinel_username, sentinel_password, tls_ca, tls_cert, " +
			"tls_key, tls_server_name, tls_insecure, and an & in a password is written %26",
			"redis+sentinel://h/m?sentinel_password=a&hunter2"},
		{"its option tls_ca is for TLS; write rediss instead of redis", "redis://h?tls_ca=a.pem"},
		{"its option tls_insecure is neither true nor false", "rediss://h?tls_insecure=yes"},
		{`tls_ca: "none.pem" cannot be read (file does not exist); give a file in PEM form`,
			"rediss://h?tls_ca=none.pem"},
		{`tls_ca: "text" holds no certificate; give that of the authority that signed the server's`,
			"rediss://h?tls_ca=text"},
		{"tls_insecure=true checks no certificate, so tls_ca would mean nothing",
			"rediss://h?tls_ca=a.pem&tls_insecure=true"},
		{"tls_cert and tls_key need each other", "rediss://h?tls_cert=text rediss://h?tls_key=text"},
		{`tls_cert: "none.pem" cannot be read`, "rediss://h?tls_cert=none.pem&tls_key=text"},
		{`tls_cert and tls_key: "text" and "text" are not a certificate and its private key in PEM form: `,
			"rediss://h?tls_cert=text&tls_key=text"},
		{"it begins or ends with a blank or a line end; leave that out",
			"redis://:hunter2@h\n file:x\n memory:\r\n valkeys+sentinel://h/m\t \tunix:///s"},
		{`unknown scheme "redis+custer"; it is one of file, memory, redis, redis+cluster, `,
			"redis+custer://user:hunter2@h"},
	} {
		for url := range strings.SplitSeq(test.urls, " ") {
			_, _, err := Open(url, options(f))
			if !errors.Is(err, store.ErrInvalid) || !strings.HasPrefix(err.Error(), "store URL: "+test.want) {
				t.Errorf("%s:\n got %v\nwant store URL: %s", url, err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "from-env") ||
				strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
}
