package yamlfile_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/internal/yamlfile"
)

// parsed parses a text, and returns the first line of the mistakes and the number of allocated bytes: a measure of
// the time that does not depend on other load.
func parsed(t *testing.T, text string) (first string, allocated uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, r := configfile.Read("f.yaml", []byte(text), configfile.Operators{})
	mistakes := r.Mistakes()
	runtime.ReadMemStats(&after)
	if said := yamlfile.Format(mistakes); len(mistakes) > 0 {
		if first, _, _ = strings.Cut(said, "\n"); mistakes[0].Line == 0 {
			t.Errorf("a mistake is nowhere: %s", first)
		}
		if len(said) > 100_000 {
			t.Errorf("it says %d bytes", len(said))
		}
	}
	return first, after.TotalAlloc - before.TotalAlloc
}

// maxAllocated is the most bytes that the worst text within the bounds allocates, most of it one after the other: a
// map of ten thousand values, twice.
const maxAllocated = 1 << 30

// A megabyte of something that takes the parser long is refused where it exceeds a bound.
func TestBombs(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	const size = 1_000_000
	repeated := func(text string) string { return strings.Repeat(text, size/len(text)) }
	const (
		nested = "lists and maps are nested more than 100 deep here"
		marks  = "the file has more than 100000 brackets, commas, colons and quotes"
		long   = "the line has more than 65536 bytes; split it"
		level  = "this list or map has more than 10000 lines"
	)
	broken := func(text string) string { // into lines that are not too long
		return strings.Repeat(strings.Repeat(text, 60_000/len(text))+"\n", 17)
	}
	for name, test := range map[string]struct{ text, want string }{
		"- - -":               {strings.Repeat("- ", 30_000), "1:1: " + nested},
		"a megabyte of - - -": {repeated("- "), "1:1: " + long},
		"[[[":                 {strings.Repeat("[", 30_000), "1:1: " + nested},
		"lines":               {repeated("x\n"), "10001:1: " + level},
		"lines beside others": {"a:\n" + strings.Repeat(strings.Repeat(" b: x\n", 5_000)+"# c\n\n", 3),
			"10006:1: " + level},
		"levels": {repeated("a:\n b:\n  c:\n"), "20001:1: the file has more than 20000 lines"},
		"a quote": {"a: \"" + strings.Repeat("x\n", 9_000),
			"1:4: could not find end character of double-quoted text"},
		"pairs":        {broken("a: "), "6:1: " + marks},
		"quotes":       {broken("''"), "2:1: " + marks},
		"blank lines":  {"a: |\n" + repeated("\n"), "10001:1: " + level},
		"replacements": {broken("\ufffd"), "1:1: the file is a text"},
	} {
		first, allocated := parsed(t, test.text)
		if !strings.HasPrefix(first, "f.yaml:"+test.want) {
			t.Errorf("%s: it says %q, want %s", name, first, test.want)
		}
		if allocated > 80<<20 {
			t.Errorf("%s: %d MB were allocated for it", name, allocated>>20)
		}
	}
}

// A text just within the bounds is read, and takes no more than it may.
func TestWithinTheBounds(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	lines := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	policies := "policies:\n" + lines(6_000, "  p%d: {limits: [{name: a, by: [ip], limit: 1/s}]}\n")
	if first, allocated := parsed(t, policies); first != "" || allocated > maxAllocated {
		t.Errorf("six thousand policies: %q, %d MB", first, allocated>>20)
	}
	for name, text := range map[string]string{
		"two maps":            "a:\n" + lines(10_000-2, " b%d:\n") + "c:\n" + lines(10_000-2, " b%d: x\n"),
		"merges":              "a0: &a0 {b: c}\n" + lines(5_000, "a%[1]d: &a%[1]d {<<: *a0, k: x}\n"),
		"brackets":            strings.Repeat("[]", 65_536/2),
		"directives":          strings.Repeat("%"+strings.Repeat("a ", 32_767)+"\n", 15),
		"documents":           strings.Repeat("--- a\n", 10_000),
		"aliases in brackets": "a: &a {b: c}\nd: {<<: [" + strings.Repeat("*a,", 20_000) + "]}\n",
		"&a *a":               strings.Repeat("&a *a ", 10_000),
		"descriptors":         "envoy:\n d:\n" + strings.Repeat("  - {policy: p, entries: {ip: }, x: }\n", 9_000),
		"aliases":             "a: &a x\n" + lines(9_998, "b%d: *a\n"),
		"steps":               steps(),
		"unknown fields":      "{" + strings.Repeat("abc: d, ", 65_536/8-1) + "}",
	} {
		if _, allocated := parsed(t, text); allocated > maxAllocated {
			t.Errorf("%s: %d MB were allocated for it", name, allocated>>20)
		}
	}
}

// steps is nested maps, as deep as a megabyte can indent them.
func steps() string {
	var b strings.Builder
	for i := range 1_400 {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}
