package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestThePageSaysWhatAnImporterIsRaisedIn compares what go.mod asks for with what a service had that imports the
// library.
func TestThePageSaysWhatAnImporterIsRaisedIn(t *testing.T) {
	ours, service := requirements(t, "go.mod"), requirements(t, "docs/samples/service.mod")
	block := ""
	for _, r := range service {
		for _, o := range ours {
			if o[0] == r[0] && newer(t, o[1], r[1]) {
				block += fmt.Sprintf("%-38s %-36s → %s\n", r[0], r[1], o[1])
			}
		}
	}
	page, err := os.ReadFile("docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```text\n"+block+"```\n") {
		t.Errorf("docs/library.md should have this block, and go.mod no higher version than it needs:\n%s", block)
	}
}

// requirements returns the modules that a go.mod asks for, in its order, each with its version.
func requirements(t *testing.T, path string) [][2]string {
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var modules [][2]string
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(file), -1) {
		modules = append(modules, [2]string{line[1], line[2]})
	}
	return modules
}

// newer reports whether version a comes after b, by their three numbers and what follows.
func newer(t *testing.T, a, b string) bool {
	var x, y [3]int
	for version, numbers := range map[string]*[3]int{a: &x, b: &y} {
		if _, err := fmt.Sscanf(version, "v%d.%d.%d", &numbers[0], &numbers[1], &numbers[2]); err != nil {
			t.Fatalf("version %s: %v", version, err)
		}
	}
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return a > b // of pseudo-versions, by their time
}
