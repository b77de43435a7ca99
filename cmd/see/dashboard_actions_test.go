package see

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// dashActionsOf returns the actions of a dashboard of a store.
func dashActionsOf(t *testing.T, backend connect.Store) *dashActions {
	t.Helper()
	g := &cli.Globals{Env: clitest.Env(t), Flags: cli.Flags{
		Timeout: time.Minute, Changed: func(string) bool { return false }}}
	s, err := g.Settings()
	if err != nil {
		t.Fatal(err)
	}
	return newDashActions(g, s, backend, "memory")
}

// What was used since a reset stays as it is, and is counted.
func TestUndoInTheDashboardKeepsWhatWasUsedSince(t *testing.T) {
	for _, since := range []int64{0, 1} {
		t.Run(fmt.Sprint(since), func(t *testing.T) {
			backend, key := memorystore.New(), store.Key{Subject: "u", Name: "n"}
			take := func(cost int64) int64 {
				limit := store.Limit{Count: 1000, Period: 1000 * time.Hour}
				decision, err := storecall.New(backend).Take(t.Context(), key, limit, cost)
				if err != nil {
					t.Fatal(err)
				}
				return decision.Used
			}
			take(10)
			actions := dashActionsOf(t, backend)
			reset, err := actions.Reset(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if since > 0 {
				take(since)
			}
			done, err := actions.Undo(t.Context(), reset)
			if used := take(1); err != nil || done.Keys != 1-since || done.InUse != since || used != 11-9*since {
				t.Errorf("undone: %+v, %v; used are %d", done, err, used)
			}
		})
	}
}

// An address in the form of an override is the client that serve counts.
func TestAnAddressInTheDashboard(t *testing.T) {
	t.Chdir(t.TempDir())
	file := "policies: {p: {http: {attributes: {ip: client}}, limits: [{name: n, by: [ip], limit: 1/1s}]}}"
	if err := os.WriteFile(config.LocalFile, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	actions := dashActionsOf(t, memorystore.New())
	if p, err := actions.ParseSubjects("ip:2001:db8::1"); err != nil || !p.Match("ip:2001%3Adb8%3A%3A/64") {
		t.Errorf("%s, %v", p, err)
	}
}
