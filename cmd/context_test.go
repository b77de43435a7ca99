package cmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// opened is a command's options after it has opened the store of a context, and the store.
func opened(t *testing.T, w *world, args ...string) (*cli.Globals, connect.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "contexts.yaml")
	const contexts = "contexts:\n  prod: {store: 'memory:', protected: true}\n  dev: {store: 'memory:'}\n" +
		"  watched: {store: 'memory:', read_only: true}\n"
	if err := os.WriteFile(path, []byte(contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &cli.Globals{Env: w.Env}
	if err := newRootCmd(g).PersistentFlags().Parse(append(args, "--config", path)); err != nil {
		t.Fatal(err)
	}
	backend, _, err := g.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { backend.Close() })
	return g, backend
}

// resetThree resets three keys as far as the consent and the answers go.
func resetThree(ctx context.Context, t *testing.T, o *cli.ConsentOptions, g *cli.Globals, backend connect.Store) error {
	t.Helper()
	s, err := g.Settings()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Check(s.Access(), g.Env.InIsTerminal, "reset", "deletes", ""); err != nil {
		return err
	}
	var keys []store.Key
	for _, subject := range []string{"a", "b", "c"} {
		key := store.Key{Subject: subject, Name: "n"}
		if _, err := storecall.New(backend).Take(t.Context(), key, store.Limit{Count: 3, Period: time.Hour}, 1); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	plan := &operation.ResetPlan{Selection: operation.Selection{Query: admin.Query{Keys: keys}}, Consent: o.Given()}
	_, err = cli.NewRunner(g, s, backend, "memory").Reset(ctx, plan, &cli.Observer{Global: g})
	return err
}

func TestConsent(t *testing.T) {
	for _, test := range []struct {
		context, confirm, typed string
		yes, terminal           bool
		want                    int
		says                    string
	}{
		{"prod", "prod", "", false, false, exitYes, ""},
		{"prod", "prd", "", true, true, exitUsage, "--confirm prd is not the name of the context of this store, which is prod"},
		{"prod", "", "", true, false, exitUsage,
			"context prod is protected, and there is no terminal to type its name on; give --confirm prod"},
		{"prod", "", "prod\n", false, true, exitYes, "Delete 3 keys? Type its name to go on: "},
		{"prod", "", " prod \r\n", true, true, exitYes, ""},
		{"prod", "", "y\n", true, true, exitNo, "Nothing was changed."},
		{"prod", "", "PROD\n", false, true, exitNo, "Nothing was changed."},
		{"prod", "", "", true, true, exitNo, "on: \nNothing was changed."},
		{"dev", "", "", true, false, exitYes, ""},
		{"dev", "", "", false, false, exitUsage, "reset asks before it deletes, and there is no terminal to ask on; give --yes"},
		{"dev", "dev", "", false, false, exitYes, ""},
		{"dev", "prod", "", true, false, exitUsage, "which is dev"}, // meant for another
		{"dev", "", "yes\n", false, true, exitYes, "Delete 3 keys? [y/N] "},
		{"watched", "watched", "", true, true, exitUsage, "context \"watched\" is read-only; a reset writes, so it was not done"},
		{"", "", "", true, false, exitYes, ""},
		{"", "", "no\n", false, true, exitNo, "Nothing was changed."},
		{"", "prod", "", true, false, exitUsage, "--confirm prod names a context, but no context is in use"},
	} {
		w := newWorld(t)
		w.InIsTerminal = test.terminal
		w.In = strings.NewReader(test.typed)
		var args []string
		if test.context != "" {
			args = []string{"--context", test.context}
		}
		g, backend := opened(t, w, args...)
		err := resetThree(context.Background(), t, &cli.ConsentOptions{Yes: test.yes, Confirm: test.confirm}, g, backend)
		said := w.err.String()
		if err != nil {
			said += err.Error()
		}
		if code := cli.ExitCode(err); code != test.want || !strings.Contains(said, test.says) {
			t.Errorf("%+v: exit code %d, %q", test, code, said)
		}
	}
}

func TestAReadOnlyStoreWritesNothing(t *testing.T) {
	ctx, key := context.Background(), store.Key{Subject: "u", Name: "n"}
	inner := memorystore.New()
	backend := connect.ReadOnly(inner, "prod")
	reqs := []store.Request{{Key: key, Limit: store.Limit{Count: 3, Period: 3600e9}, Cost: 1}}
	decisions := make([]store.Decision, 1)
	if err := inner.Decide(ctx, store.Take, reqs, decisions); err != nil {
		t.Fatal(err)
	}
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, store.ErrInvalid) || cli.ExitCode(err) != exitUsage ||
			!strings.Contains(err.Error(), `context "prod" is read-only`) {
			t.Errorf("the error is %v", err)
		}
	}
	for _, op := range []store.Op{store.Take, store.Refund, store.Adjust} {
		refused(backend.Decide(ctx, op, reqs, decisions))
	}
	_, _, err := backend.Delete(ctx, admin.Record{Key: key})
	refused(err)
	_, err = backend.Import(ctx, true, admin.Record{Key: key})
	refused(err)
	if err := backend.Decide(ctx, store.Peek, reqs, decisions); err != nil || decisions[0].Used != 1 {
		t.Errorf("a peek finds %+v, %v", decisions[0], err)
	}
	all, err := store.ParsePattern("*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range backend.Scan(ctx, admin.Query{Subjects: all}) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("a scan finds %d keys", n)
	}
}
