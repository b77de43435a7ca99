package identity

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func at(t *testing.T, url string) Store {
	t.Helper()
	address := must(connect.Address(url))
	return Store{Address: address, Prefix: "rl"}
}

// Addresses are compared by their targets.
func TestMeet(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "limits.db")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, filepath.Join(dir, "link.db"))); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"redis://prod", "redis://user:pw@prod:6379/0", true},
		{"redis://prod", "redis://prod/1", false},
		{"redis://prod", "redis://prod:6380", false},
		{"redis://nowhere", "redis://elsewhere", false},
		{"redis://nowhere", "redis://nowhere", true},
		{"redis://localhost", "redis://[::1]", true},
		{"redis+cluster://a:1,prod:2", "redis+cluster://prod:2,a:1", true},
		{"redis+sentinel://a,b/m", "redis+sentinel://a,b/n", false},
		{"redis+sentinel://a,b/m", "redis+sentinel://a,b/m/2", false},
		{"redis+sentinel://prod:6379/m", "redis://prod", false},
		{"unix:///run/redis.sock", "unix:///run/redis.sock?db=0", true},
		{"unix:///run/redis.sock", "unix:///run/redis.sock?db=1", false},
		{"unix:///run/redis.sock", "redis://localhost", false},
		{"file:" + file, "file:" + filepath.Join(dir, "link.db"), true},
		{"file:" + file, "file:" + filepath.Join(dir, "other.db"), false},
		{"memory:", "file:" + file, false},
	} {
		a, b := at(t, test.a), at(t, test.b)
		if got := Meet(&a, &b); got != test.want || Meet(&b, &a) != test.want {
			t.Errorf("%s and %s meet: %v", test.a, test.b, got)
		}
		b.Prefix = "other"
		if Meet(&a, &b) {
			t.Errorf("%s meets %s under another prefix", test.a, test.b)
		}
	}
}

// The id decides, then the servers and the address. One id at two places can be a copy.
func TestCompare(t *testing.T) {
	const one, two = "11111111111111111111111111111111", "22222222222222222222222222222222"
	for name, test := range map[string]struct {
		a, b Store
		want Verdict
	}{
		"no ids, one address":            {Store{Address: "redis a:1 db 0"}, Store{Address: "redis a:1 db 0"}, Same},
		"no ids, two addresses":          {Store{Address: "redis a:1 db 0"}, Store{Address: "redis b:1 db 0"}, Other},
		"an id on one side, one address": {Store{Address: "redis a:1 db 0", ID: one}, Store{Address: "redis a:1 db 0"}, Same},
		"two ids, one address":           {Store{Address: "redis a:1 db 0", ID: one}, Store{Address: "redis a:1 db 0", ID: two}, Other},
		"one id, one address":            {Store{Address: "redis a:1 db 0", ID: one}, Store{Address: "redis a:1 db 0", ID: one}, Same},
		"one id, two addresses":          {Store{Address: "redis a:1 db 0", ID: one}, Store{Address: "redis b:1 db 0", ID: one}, Copy},
		"one id, one server": {Store{Address: "redis a:1 db 0", ID: one, Servers: []string{"r/0", "s/0"}},
			Store{Address: "redis b:1 db 0", ID: one, Servers: []string{"s/0"}}, Same},
		"no ids, one server": {Store{Address: "redis a:1 db 0", Servers: []string{"r/0"}},
			Store{Address: "unix /x db 0", Servers: []string{"r/0"}}, Same},
		"another prefix": {Store{Address: "redis a:1 db 0", Prefix: "x"}, Store{Address: "redis a:1 db 0"}, Other},
	} {
		if got := Compare(&test.a, &test.b); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// A server is recognized at any of its addresses, and a copy of its data is not the server.
func TestAskServers(t *testing.T) {
	server, other := redistest.Start(t), redistest.Start(t)
	backend := must(redisstore.Own(server.Client()))
	id := must(backend.EnsureStoreID(t.Context()))
	ask := func(url string) Store {
		t.Helper()
		return must(Ask(t.Context(), url, connect.Options{Prefix: "rl", Timeout: time.Minute}))
	}
	there, socket := ask("redis://"+server.Addr), ask("unix://"+server.Socket)
	if there.ID != id || len(there.Servers) != 1 || Compare(&there, &socket) != Same {
		t.Errorf("%+v and %+v are not the same, with id %s", there, socket, id)
	}
	second := ask("unix://" + server.Socket + "?db=1")
	if Compare(&there, &second) != Other {
		t.Errorf("%+v and its second database %+v are the same", there, second)
	}
	other.Do("SET", "rl!id", id)
	if copied := ask("redis://" + other.Addr); Compare(&there, &copied) != Copy {
		t.Errorf("the copy %+v of %+v is not told", copied, there)
	}
	// A user without the rights learns nothing, and gets no error of the store.
	server.Do("ACL", "SETUSER", "poor", "on", ">pw", "~*", "+ping")
	if known, err := Ask(t.Context(), "redis://poor:pw@"+server.Addr, connect.Options{Prefix: "rl", Timeout: time.Minute}); !errors.Is(err,
		store.ErrRefused) || known.ID != "" || known.Servers != nil || known.Address != there.Address {
		t.Errorf("without rights: %+v, %v", known, err)
	}
}

// must returns what a call returned that cannot fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
