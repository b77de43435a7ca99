package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// budgets has the lines that each package may have, tests apart.
const budgets = "house_budgets.txt"

// A package does not grow beyond its budget: what is added somewhere is taken away there. With -update, budgets fall to
// what their packages have; who has a reason to raise one does it by hand.
func TestBudgets(t *testing.T) {
	text, err := os.ReadFile(budgets)
	if err != nil {
		t.Fatal(err)
	}
	may := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var name string
		var lines int
		if _, err := fmt.Sscan(line, &lines, &name); err != nil {
			t.Fatalf("%s: %q: %s", budgets, line, err)
		}
		may[name] = lines
	}
	have := linesOfPackages(t)
	if *update {
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(have)) {
			if bound, has := may[name]; has {
				have[name] = min(have[name], bound)
			}
			fmt.Fprintf(&b, "%5d %s\n", have[name], name)
		}
		if err := os.WriteFile(budgets, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, lines := range have {
		if bound, has := may[name]; !has {
			t.Errorf("%s has %d lines and no budget in %s", name, lines, budgets)
		} else if lines > bound {
			t.Errorf("%s has %d lines, and may have %d", name, lines, bound)
		}
		delete(may, name)
	}
	for name := range may {
		t.Errorf("%s has no Go files any more; take it out of %s, with -update", name, budgets)
	}
}

// linesOfPackages counts the lines of Go of each folder of the repository, tests apart.
func linesOfPackages(t *testing.T) map[string]int {
	t.Helper()
	lines := map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			hidden := strings.HasPrefix(name, ".") && path != "."
			if hidden || name == "node_modules" || name == "testdata" || path == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		lines[filepath.ToSlash(filepath.Dir(path))] += bytes.Count(text, []byte("\n"))
		return err
	})
	if err != nil || len(lines) < 20 {
		t.Fatalf("%d packages, %v", len(lines), err)
	}
	return lines
}
