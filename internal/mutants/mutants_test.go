package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
)

// What the tool prints about breaks of a tiny module.
func TestBreaks(t *testing.T) {
	tier.Full(t, "Go builds of its own")
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module tiny\n\ngo 1.26\n",
		"a/a.go": "package a\n\nimport _ \"embed\"\n\n//go:embed a.lua\nvar Script string\n\nfunc More(n int) bool " +
			"{\n\treturn n > 3\n}\n",
		"a/a.lua":     "return 1",
		"a/a_test.go": testsOfTiny,
		"lists/a.txt": listOfTiny,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	breaks, err := readBreaks(filepath.Join(root, "lists"), regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	try := trial{root: root, temp: t.TempDir(), atOnce: 2, timeout: time.Minute, out: &out}
	ok, err := try.try(t.Context(), breaks)
	if ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
	for _, wanted := range []string{
		`(?m)^killed  a/killed  [\d.]+s$`,
		`(?m)^killed  a/script  [\d.]+s$`,
		`(?m)^FAILED  a/survives \(a/a.go\): it survives ./a TestMore: 3 is more than 3$`,
		`(?m)^FAILED  a/gone \(a/a.go\): the text is gone: return n > 4$`,
		`(?m)^FAILED  a/often \(a/a.go\): the text is there more than once: n$`,
		`(?m)^FAILED  a/no-file \(a/b.go\): .*b\.go`,
		`(?ms)^FAILED  a/no-code \(a/a.go\): the break does not compile:$.*undefined: m$`,
		`(?m)^FAILED  a/no-test \(a/a.go\): ./a has no test TestLess$`,
		`(?m)^FAILED  a/no-part \(a/a.go\): ./a has no test TestMore/less$`,
		`(?m)^FAILED  a/red \(a/a.go\): ./a TestRed fails without the break, too:$`,
		`(?m)^FAILED  a/hangs \(a/a.go\): ./a TestWaits hung for 1m0s; it has to fail$`,
		`(?m)^2 of 11 breaks were killed, in \S+$`,
		`(?m)^these were not: a/gone, a/hangs, a/no-code, a/no-file, a/no-part, a/no-test, a/often, a/red, a/survives$`,
	} {
		if !regexp.MustCompile(wanted).MatchString(out.String()) {
			t.Errorf("no %s", wanted)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

const testsOfTiny = `package a

import (
	"flag"
	"testing"
)

func TestMore(t *testing.T) {
	if More(0) || !More(5) || Script != "return 1" {
		t.Error("wrong")
	}
}

func TestRed(t *testing.T) { t.Error("red") }

// The time-out's own words come at once here.
func TestWaits(t *testing.T) {
	if More(0) {
		panic("test timed out after " + flag.Lookup("test.timeout").Value.String())
	}
}
`

const listOfTiny = `# A note.
break killed
file  a/a.go
test  TestMore
harm  all is more
- func More(n int) bool {
- 	return n > 3
+ func More(n int) bool {
+ 	return true

break script
file  a/a.lua
test  ./a TestMore
harm  the script does nothing
- return 1

break survives
file  a/a.go
test  TestMore
harm  3 is more than 3
- n > 3
+ n >= 3

break gone
file  a/a.go
test  TestMore
harm  none
- return n > 4
+ return n > 5

break often
file  a/a.go
test  TestMore
harm  none
- n
+ m

break no-file
file  a/b.go
test  TestMore
harm  none
- n
+ m

break no-code
file  a/a.go
test  TestMore
harm  none
- n > 3
+ m > 3

break no-test
file  a/a.go
test  TestLess
harm  none
- n > 3
+ n > 4

break no-part
file  a/a.go
test  TestMore/less
harm  none
- n > 3
+ n > 4

break red
file  a/a.go
test  TestRed
harm  none
- n > 3
+ n > 4

break hangs
file  a/a.go
test  TestWaits
harm  none
- n > 3
+ n >= 0
`

// An incomplete break is refused, with its place.
func TestLists(t *testing.T) {
	const whole = "break x\nfile a/a.go\ntest TestX\nharm it hurts\n- a\n+ b\n"
	for text, wanted := range map[string]string{
		whole:                                   "",
		"file a/a.go\n":                         "lists/a.txt:1: a list begins with a line break NAME",
		whole + "tests TestX\n":                 `lists/a.txt:7: a line begins with break, file, test, harm, - or +, and not with "tests"`,
		whole + "break y\n":                     "lists/a.txt: a/y needs file, test, harm, a text that goes (-) and another that comes (+)",
		"break y\n" + whole:                     "lists/a.txt: a/y needs file, test, harm, a text that goes (-) and another that comes (+)",
		strings.Replace(whole, "- a", "", 1):    "lists/a.txt: a/x needs file, test, harm, a text that goes (-) and another that comes (+)",
		strings.Replace(whole, "+ b", "+ a", 1): "lists/a.txt: a/x needs file, test, harm, a text that goes (-) and another that comes (+)",
	} {
		said := ""
		if _, err := parseBreaks("lists/a.txt", text); err != nil {
			said = err.Error()
		}
		if said != wanted {
			t.Errorf("%q: %q, want %q", text, said, wanted)
		}
	}
}

// A break whose text or test is missing breaks nothing. This test finds it at once, not only in the long run of all
// breaks.
func TestTheBreaksFollowTheCode(t *testing.T) {
	const root = "../.."
	breaks, err := readBreaks("breaks", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{} // by package, all its test files
	for _, b := range breaks {
		text, err := os.ReadFile(filepath.Join(root, b.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), b.old); n != 1 {
			t.Errorf("%s: its text is %d times in %s", b.name, n, b.file)
		}
		if _, read := tests[b.pkg]; !read {
			paths, err := filepath.Glob(filepath.Join(root, b.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				tests[b.pkg] += string(text)
			}
		}
		name := regexp.MustCompile(`^\^?\(?(Test\w*)`).FindStringSubmatch(b.test)
		if name == nil || !strings.Contains(tests[b.pkg], "func "+name[1]) {
			t.Errorf("%s: %s has no test %s", b.name, b.pkg, b.test)
		}
	}
}
