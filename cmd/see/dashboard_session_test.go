package see

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The commands that y copies are about exactly the key, and there is none that cannot be given.
func TestCommandsAboutAKey(t *testing.T) {
	g := &cli.Globals{Env: clitest.Env(t), Flags: cli.Flags{Timeout: time.Minute, Changed: func(string) bool { return false }}}
	chosen, err := g.Settings()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{dashboardOptions: &dashboardOptions{Globals: g}, chosen: chosen, actions: dashActionsOf(t, memorystore.New())}
	here := strings.TrimPrefix(cli.CommandHere(g, chosen, "x"), "limitctl x") // the store of the test
	commands := func(e *admin.Entry) (all []string) {
		for _, command := range s.commands(e) {
			without, _, _ := strings.Cut(command, here)
			all = append(all, without+strings.TrimPrefix(command, without+here))
		}
		return all
	}
	limit := store.Limit{Algorithm: store.TokenBucket, Count: 10, Burst: 10, Period: time.Minute}
	doubled := limit
	doubled.Count, doubled.Burst = 20, 20
	const block = "limitctl block --for 1h --reason 'seen in the dashboard' "
	const exactly = "limitctl block --for 1h --reason 'seen in the dashboard' --exact "
	for _, test := range []struct {
		entry admin.Entry
		want  []string
	}{
		{admin.Entry{Key: store.Key{Subject: "user:42", Name: limit.DefaultName()}, Limit: limit},
			[]string{"limitctl check --limit token-bucket:10/1m user:42", block + "user:42"}},
		{admin.Entry{Key: store.Key{Subject: "user:42", Name: limit.DefaultName()}, Limit: doubled, Recorded: limit},
			[]string{"limitctl check --limit token-bucket:10/1m user:42", block + "user:42"}},
		{admin.Entry{Key: store.Key{Subject: "tenant:acme:user:7", Name: "api/user"}, Limit: limit},
			[]string{"limitctl check --policy api tenant=acme user=7", block + "tenant:acme:user:7"}},
		{admin.Entry{Key: store.Key{Subject: "user:42", Name: "of-a-service"}, Limit: limit}, []string{block + "user:42"}},
		{admin.Entry{Key: store.Key{Subject: "ip:2001:db8::1", Name: "x"}, Limit: limit}, []string{exactly + "ip:2001:db8::1"}},
		{admin.Entry{Key: store.Key{Subject: "user:*", Name: "x"}, Limit: limit}, []string{exactly + "'user:*'"}},
		{admin.Entry{Key: store.Key{Subject: "ip:10.0.0.0/8", Name: "x"}, Limit: limit}, []string{exactly + "ip:10.0.0.0/8"}},
		{admin.Entry{Key: store.Key{Subject: "tenant=acme", Name: "x"}, Limit: limit}, []string{exactly + "tenant=acme"}},
		{admin.Entry{Key: store.Key{Subject: "203.0.113.9", Name: "x"}, Limit: limit}, []string{exactly + "203.0.113.9"}},
		{admin.Entry{Key: store.Key{Subject: "--all", Name: "x"}, Limit: limit}, []string{exactly + "-- --all"}},
		{admin.Entry{Key: store.Key{Subject: "$(touch x)'", Name: "x"}, Limit: limit}, []string{exactly + `'$(touch x)'\'`}},
	} {
		if got := commands(&test.entry); !slices.Equal(got, test.want) {
			t.Errorf("for %s: %q, want %q", test.entry.Key, got, test.want)
		}
	}
	s.actions = nil // where nothing may be changed
	e := admin.Entry{Key: store.Key{Subject: "user:42", Name: limit.DefaultName()}, Limit: limit}
	if got := strings.Join(commands(&e), "\n"); got != "limitctl check --limit token-bucket:10/1m user:42" {
		t.Errorf("read-only: %s", got)
	}
}
