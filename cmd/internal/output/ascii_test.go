package output

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSignsKeepTheirWidth(t *testing.T) {
	for sign, ascii := range signs {
		if got, want := Width(ascii), Width(string(sign)); got != want {
			t.Errorf("%q has %d columns, and its %q %d", sign, want, ascii, got)
		}
		for i := range len(ascii) {
			if ascii[i] < ' ' || ascii[i] > '~' {
				t.Errorf("%q becomes %q, which is not ASCII", sign, ascii)
			}
		}
	}
}

func TestASCIILeavesNamesAlone(t *testing.T) {
	const text = "✓ set  ×3 of user:é\xff利 …"
	if got, want := ASCII(text), "+ set  x3 of user:é\xff利 ~"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A sign may arrive in parts.
func TestASCIITerminal(t *testing.T) {
	for _, part := range []int{1, 2, 3, 100} {
		var out bytes.Buffer
		terminal := NewASCIITerminal(&out, true)
		text := []byte("\x1b[32m✓ ok\x1b[0m … é\x1b[2J\n")
		for len(text) > 0 {
			n := min(part, len(text))
			if _, err := terminal.Write(text[:n]); err != nil {
				t.Fatal(err)
			}
			text = text[n:]
		}
		if err := terminal.Flush(); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "\x1b[32m+ ok\x1b[0m ~ é\\x1b[2J\n"; got != want {
			t.Errorf("in parts of %d: got %q, want %q", part, got, want)
		}
	}
}

func TestNamesWithSignsAreNotTakenForOthers(t *testing.T) {
	var out bytes.Buffer
	p := &Printer{Out: NewASCIITerminal(&out, false), ASCII: true}
	p.Table([]Column{{Header: "SUBJECT", Names: true}, {Header: "EFFECT"}},
		[][]Cell{{{Text: "a×b…"}, {Text: "×3"}}, {{Text: "axb~"}, {Text: "≥2"}}})
	want := "SUBJECT         EFFECT\na\\u00d7b\\u2026  x3\naxb~            >2\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheLocaleSaysWhetherOnlyASCIIIsShown(t *testing.T) {
	for _, test := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false}, // as in most containers
		{"C", "", "", true}, {"POSIX", "", "en_US.UTF-8", true}, {"", "C", "en_US.UTF-8", true}, {"", "", "C", true},
		{"", "", "de_DE.ISO-8859-1", true}, {"", "", "de_DE@euro", true}, {"", "", "en_US", true},
		{"C.UTF-8", "C", "C", false}, {"", "en_US.utf8", "C", false}, {"", "UTF-8", "", false}, {"", "", "de_DE.UTF-8@euro", false},
	} {
		variables := map[string]string{"LC_ALL": test.all, "LC_CTYPE": test.ctype, "LANG": test.lang}
		if got := OnlyASCII(func(name string) string { return variables[name] }); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// Every character beyond ASCII of a text in the code has its ASCII. Left out are files whose texts are for programs or
// for browsers, or which read or compare such characters.
func TestEverySignHasItsASCII(t *testing.T) {
	elsewhere := []string{"report/show/markdown.go", "report/show/charts.go", "report/show/page.go", "report/sample/", "output/csv.go",
		"lab/probe_answer.go", "report/compare/answer.go", "report/threshold.go", "output/table.go", "output/ascii.go", "/page/",
		"internal/hostiletext/", "limiter/storetest/"}
	for _, root := range []string{"cmd", "internal", "pkg"} {
		if err := filepath.WalkDir(filepath.Join("..", "..", "..", root), checkSigns(t, elsewhere)); err != nil {
			t.Fatal(err)
		}
	}
}

func checkSigns(t *testing.T, elsewhere []string) fs.WalkDirFunc {
	return func(path string, entry fs.DirEntry, err error) error {
		name := filepath.ToSlash(path)
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		for _, part := range elsewhere {
			if strings.Contains(name, part) {
				return nil
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var s scanner.Scanner
		files := token.NewFileSet()
		file := files.AddFile(path, -1, len(text))
		s.Init(file, text, nil, 0)
		for at, kind, literal := s.Scan(); kind != token.EOF; at, kind, literal = s.Scan() {
			if kind != token.STRING && kind != token.CHAR {
				continue
			}
			if kind == token.STRING {
				if literal, err = strconv.Unquote(literal); err != nil {
					return err
				}
			}
			for _, r := range literal {
				if r > '~' && r != utf8.RuneError && signs[r] == "" && strings.ContainsRune(string(text), r) { // not one that is written as an escape
					t.Errorf("%s: %q has no ASCII", files.Position(at), r)
				}
			}
		}
		return nil
	}
}
