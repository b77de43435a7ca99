package see

import (
	"os"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/dash/live"
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
	return newDashActions(g, s, backend, "memory", store.Pattern{})
}

// What was used since a reset stays as it is, and is counted.
func TestUndoInTheDashboardKeepsWhatWasUsedSince(t *testing.T) {
	ctx := t.Context()
	backend := memorystore.New()
	take := func(key store.Key, cost int64) int64 {
		t.Helper()
		decision, err := storecall.New(backend).Take(ctx, key, store.Limit{Count: 1000, Period: 1000 * time.Hour}, cost)
		if err != nil {
			t.Fatal(err)
		}
		return decision.Used
	}
	calm, busy := store.Key{Subject: "calm", Name: "n"}, store.Key{Subject: "busy", Name: "n"}
	take(calm, 10)
	take(busy, 10)
	actions := dashActionsOf(t, backend)
	reset, err := actions.Reset(ctx, []live.ID{{Key: calm}, {Key: busy}})
	if err != nil {
		t.Fatal(err)
	}
	take(busy, 1)
	done, err := actions.Undo(ctx, reset)
	if ofCalm, ofBusy := take(calm, 1), take(busy, 1); err != nil || done.Keys != 1 || done.InUse != 1 ||
		ofCalm != 11 || ofBusy != 2 {
		t.Errorf("undone: %+v, %v; used are %d and %d", done, err, ofCalm, ofBusy)
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
