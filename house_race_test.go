package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A renamed test or package does not drop out of what runs under the race detector.
func TestWhatIsTestedForRacesIsThere(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	selected := regexp.MustCompile(`(?m)^RAC(?:ES|ING) +:= (.*)$`).FindAllStringSubmatch(strings.ReplaceAll(string(makefile), "\\\n", ""),
		-1)
	if len(selected) != 2 {
		t.Fatalf("the Makefile has RACES and RACING %d times", len(selected))
	}
	var names []string
	tests := make(map[string][]string) // by folder
	err = filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
			tests[filepath.Dir(path)] = append(tests[filepath.Dir(path)], found[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(selected[0][1], "|") {
		name, _, _ := strings.Cut(part, "/")
		if !slices.ContainsFunc(names, func(test string) bool { return strings.Contains(test, name) }) {
			t.Errorf("no test is called %s", name)
		}
	}
	raceless := regexp.MustCompile(`(?m)^RACELESS +:= (.*)$`).FindStringSubmatch(string(makefile))
	if raceless == nil {
		t.Fatal("the Makefile has no RACELESS")
	}
	races, skipped := regexp.MustCompile(strings.ReplaceAll(selected[0][1], "/Law11", "")), regexp.MustCompile(raceless[1])
	for place := range strings.FieldsSeq(selected[1][1]) {
		for _, name := range tests[filepath.Clean(place)] {
			if races.MatchString(name) && skipped.MatchString(name) {
				t.Errorf("%s of %s is one of RACES, and skipped as one of RACELESS", name, place)
			}
		}
		if info, err := os.Stat(place); err != nil || !info.IsDir() {
			t.Errorf("there is no package %s", place)
		}
	}
}
