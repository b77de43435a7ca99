package cmd

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who resets agrees by --yes, by --confirm or at a terminal; nobody else does.
func TestConsent(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "contexts.yaml")
	contexts := strings.ReplaceAll("contexts:\n  prod: {store: 'file:DIR/prod.db', protected: true}\n"+
		"  dev: {store: 'file:DIR/dev.db'}\n  watched: {store: 'file:DIR/watched.db', read_only: true}\n", "DIR", dir)
	if err := os.WriteFile(config, []byte(contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		context, confirm, typed string
		yes, terminal           bool
		want                    int
		says                    string
	}{
		{"prod", "prod", "", false, false, exitYes, ""},
		{"prod", "prd", "", true, true, exitUsage,
			"--confirm prd is not the name of the context of this store, which is prod"},
		{"prod", "", "", true, false, exitUsage,
			"context prod is protected, and there is no terminal to type its name on; give --confirm prod"},
		{"prod", "", "prod\n", false, true, exitYes, "Delete 3 keys? Type its name to go on: "},
		{"prod", "", " prod \r\n", true, true, exitYes, ""},
		{"prod", "", "y\n", true, true, exitNo, "Nothing was changed."},
		{"prod", "", "PROD\n", false, true, exitNo, "Nothing was changed."},
		{"prod", "", "", true, true, exitNo, "on: \nNothing was changed."},
		{"dev", "", "", true, false, exitYes, ""},
		{"dev", "", "", false, false, exitUsage,
			"reset asks before it deletes, and there is no terminal to ask on; give --yes"},
		{"dev", "dev", "", false, false, exitYes, ""},
		{"dev", "prod", "", true, false, exitUsage, "which is dev"}, // meant for another
		{"dev", "", "yes\n", false, true, exitYes, "Delete 3 keys? [y/N] "},
		{"watched", "watched", "", true, true, exitUsage,
			"context \"watched\" is read-only; a reset writes, so it was not done"},
		{"", "", "", true, false, exitYes, ""},
		{"", "", "no\n", false, true, exitNo, "Nothing was changed."},
		{"", "", "", false, true, exitNo, "Nothing was changed."},
		{"", "", "\n", false, true, exitNo, "Nothing was changed."},
		{"", "", "yess\n", false, true, exitNo, "Nothing was changed."},
		{"", "", "Y\n", false, true, exitYes, "Delete 3 keys? [y/N] "},
		{"", "prod", "", true, false, exitUsage, "--confirm prod names a context, but no context is in use"},
	} {
		w := newWorld(t)
		store := "file:" + filepath.Join(dir, cmp.Or(test.context, "none")+".db")
		for _, subject := range []string{"a", "b", "c"} {
			w.run(t, exitYes, "consume", subject, "--limit", "100/1h", "--store", store)
		}
		w.InIsTerminal, w.In = test.terminal, strings.NewReader(test.typed)
		args := []string{"reset", "*", "-q", "--config", config, "--store", store}
		if test.context != "" {
			args = []string{"reset", "*", "-q", "--config", config, "--context", test.context}
		}
		if test.yes {
			args = append(args, "--yes")
		}
		if test.confirm != "" {
			args = append(args, "--confirm", test.confirm)
		}
		left := 3
		if test.want == exitYes {
			left = 0
		}
		_, stderr := w.run(t, test.want, args...)
		asked := strings.Contains(stderr, "Delete 3")
		if !strings.Contains(stderr, test.says) || asked && !strings.Contains(stderr, "rl:{a}:") {
			t.Errorf("%+v: %q", test, stderr)
		}
		keys, _ := w.run(t, exitYes, "inspect", "*", "-o", "jsonl", "--store", store)
		if strings.Count(keys, "\n") != left {
			t.Errorf("%+v leaves %s", test, keys)
		}
	}
}

// Who is asked about an override sees the instant at which it ends.
func TestConsentToAnOverride(t *testing.T) {
	w := newWorld(t)
	w.InIsTerminal, w.In = true, strings.NewReader("no\n")
	_, stderr := w.run(t, exitNo, "block", "a", "--for", "1h", "--reason", "r")
	before, _, asked := strings.Cut(stderr, "Set this override for 1h? [y/N] ")
	if end := strings.LastIndex(before, "\nuntil "); !asked || end < 0 || strings.Count(before[end:], ":") != 2 {
		t.Error(stderr)
	}
}
