package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what pages show and packages have now")

// budgets has the lines that each package may have, tests apart.
const budgets = "house_budgets.txt"

// A package does not grow beyond its budget: what is added somewhere is taken away there. With -update, budgets become
// what their packages have, and a review sees which ones rise.
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

// What a package may be like, so that somebody who lives in it can hold it in mind.
const (
	mostFiles = 40
	leastFile = 40 // lines of a file, unless it is the only one of its package or for some systems
)

// roomy says which packages may have more files, since their files hardly refer to one another.
var roomy = map[string]string{
	"pkg/limiter/layouts": "a page for each limiter, and the pages do not refer to one another",
}

var systemFile = regexp.MustCompile(`_(linux|darwin|windows|freebsd|unix|other)\.go$`)

func TestPackagesHaveFewFilesOfSomeLength(t *testing.T) {
	for name, files := range goFiles(t) {
		if _, may := roomy[name]; len(files) > mostFiles && !may {
			t.Errorf("%s has %d files; a package has at most %d", name, len(files), mostFiles)
		}
		common := slices.DeleteFunc(slices.Clone(files), func(f goFile) bool { return f.forASystem })
		for _, f := range common {
			if f.lines < leastFile && len(common) > 1 && !strings.HasPrefix(name, "docs/") {
				t.Errorf("%s has %d lines, and at least %d make a file; it belongs to another one", f.path, f.lines, leastFile)
			}
		}
	}
}

// linesOfPackages sums up the lines of Go of each folder of the repository, tests apart.
func linesOfPackages(t *testing.T) map[string]int {
	t.Helper()
	lines := map[string]int{}
	for name, files := range goFiles(t) {
		for _, f := range files {
			lines[name] += f.lines
		}
	}
	return lines
}

// A goFile is a file of a package that is no test.
type goFile struct {
	path       string
	lines      int
	forASystem bool // it is built for some systems only
}

// goFiles returns the files of each folder of the repository, tests apart.
func goFiles(t *testing.T) map[string][]goFile {
	t.Helper()
	files := map[string][]goFile{}
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
		folder := filepath.ToSlash(filepath.Dir(path))
		system := systemFile.MatchString(path) || strings.HasPrefix(string(text), "//go:build ")
		files[folder] = append(files[folder], goFile{path, bytes.Count(text, []byte("\n")), system})
		return err
	})
	if err != nil || len(files) < 20 {
		t.Fatalf("%d packages, %v", len(files), err)
	}
	return files
}
