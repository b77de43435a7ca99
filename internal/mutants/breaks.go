package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A broken is one way to break the code, from a list in breaks/.
type broken struct {
	name     string // the list's file and the name in it, such as serve/refused
	file     string // what is broken, from the root of the module
	pkg      string // the package with the tests, such as ./cmd/internal/serve
	test     string // the tests, as for go test -run
	harm     string // what a user would see
	old, new string // a text that occurs once, and its replacement
}

// readBreaks reads the lists of a folder, and returns the breaks with matching names.
func readBreaks(folder string, only *regexp.Regexp) (breaks []broken, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		list, err := parseBreaks(path, string(text))
		if err != nil {
			return nil, err
		}
		for _, b := range list {
			if names[b.name] {
				return nil, fmt.Errorf("%s: two breaks are called %s", path, b.name)
			}
			names[b.name] = true
			if only.MatchString(b.name) {
				breaks = append(breaks, b)
			}
		}
	}
	if len(breaks) == 0 {
		return nil, fmt.Errorf("no break of %s has a name that matches %q", folder, only)
	}
	return breaks, nil
}

// parseBreaks reads one list. A line is a word and its text; "-" and "+" are followed by one
// space and a line of code.
func parseBreaks(path, text string) (breaks []broken, err error) {
	list := strings.TrimSuffix(filepath.Base(path), ".txt")
	var old, replacement []string
	end := func() error {
		if len(breaks) == 0 {
			return nil
		}
		b := &breaks[len(breaks)-1]
		b.old, b.new = strings.Join(old, "\n"), strings.Join(replacement, "\n")
		old, replacement = nil, nil
		if b.pkg == "" {
			b.pkg = "./" + filepath.ToSlash(filepath.Dir(b.file))
		}
		if b.file == "" || b.test == "" || b.harm == "" || b.old == "" || b.old == b.new {
			return fmt.Errorf("%s: %s needs file, test, harm, a text that goes (-) and another that comes (+)", path, b.name)
		}
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "break" {
			if err := end(); err != nil {
				return nil, err
			}
			breaks = append(breaks, broken{name: list + "/" + strings.TrimSpace(rest)})
			continue
		}
		if len(breaks) == 0 {
			return nil, fmt.Errorf("%s:%d: a list begins with a line break NAME", path, i+1)
		}
		b := &breaks[len(breaks)-1]
		switch word {
		case "file":
			b.file = strings.TrimSpace(rest)
		case "test":
			b.test = strings.TrimSpace(rest)
			if pkg, test, found := strings.Cut(b.test, " "); found {
				b.pkg, b.test = pkg, strings.TrimSpace(test)
			}
		case "harm":
			b.harm = strings.TrimSpace(rest)
		case "-":
			old = append(old, rest)
		case "+":
			replacement = append(replacement, rest)
		default:
			return nil, fmt.Errorf("%s:%d: a line begins with break, file, test, harm, - or +, and not with %q", path, i+1, word)
		}
	}
	return breaks, end()
}
