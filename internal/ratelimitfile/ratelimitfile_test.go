package ratelimitfile

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// rulesOf returns the rules of files, each of which has this text.
func rulesOf(t *testing.T, texts ...string) *Rules {
	t.Helper()
	var files []File
	for i, text := range texts {
		files = append(files, File{fmt.Sprint("file", i, ".yaml"), []byte(text)})
	}
	rules, mistakes := Read(files)
	if len(mistakes) > 0 {
		t.Fatalf("%v\n%s", mistakes, texts)
	}
	return rules
}

// checkText checks that the text of rules is a configuration that means the same.
func checkText(t *testing.T, rules *Rules) {
	t.Helper()
	text := rules.Text()
	file, r := configfile.Read("imported.yaml", []byte(text), configfile.Operators{})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		t.Fatalf("%v\n%s", mistakes, text)
	}
	for _, p := range file.Policies {
		p.LocalShare = 0
	}
	if !reflect.DeepEqual(file.Policies, rules.Policies) && len(file.Policies)+len(rules.Policies) > 0 {
		t.Errorf("the policies are read as\n%+v\nof\n%s", file.Policies, text)
	}
	for domain, descriptors := range rules.Envoy {
		if got := file.Envoy[domain]; len(got)+len(descriptors) > 0 && !reflect.DeepEqual(got, descriptors) {
			t.Errorf("domain %q is read as\n%+v\nnot\n%+v\nof\n%s", domain, got, descriptors, text)
		}
	}
	if len(file.Envoy) != len(rules.Envoy) || file.EnvoyOptions != (configfile.EnvoyOptions{}) {
		t.Errorf("there are %d domains, and options %+v", len(file.Envoy), file.EnvoyOptions)
	}
}

func TestTheTextMeansTheSame(t *testing.T) {
	for _, name := range []string{"limits.yaml", "other.yaml"} {
		data, err := os.ReadFile("../serve/envoy/testdata/peer/" + name)
		if err != nil {
			t.Fatal(err)
		}
		checkText(t, rulesOf(t, string(data)))
	}
	checkText(t, rulesOf(t, "domain: none"))
	checkText(t, rulesOf(t, "domain: shadow\ndescriptors: [{key: a}]"))
	checkText(t, rulesOf(t, "domain: d\ndescriptors: [{key: a}]", "domain: d\ndescriptors: [{key: b}]", "domain: e"))
	for _, text := range []string{
		"no", "Y", "~", "null", "007", "1e3", ".inf", "a: b", "a #b", "- a", "{", "'", `"`, `\`, "é", "😀", "\u0085",
		"\u200b",
		" a ", "a\tb", "x=y", "[a]", "&a", "!a", "%a", "@a", "`a", "a,b", "2026-01-02", "0x1f", "=", "<<",
	} {
		word := strconv.QuoteToASCII(text)
		file := fmt.Sprintf("domain: %s\ndescriptors:\n  - key: k\n    value: %s\n"+
			"    rate_limit: {unit: day, requests_per_unit: 2, name: %[2]s}\n"+
			"  - key: l\n    rate_limit: {unlimited: true, replaces: [{name: %[2]s}]}\n", word, word)
		checkText(t, rulesOf(t, file))
		if !strings.ContainsAny(text, "=") {
			file = "domain: d\ndescriptors:\n  - key: " + word + "\n    rate_limit: {unit: day, requests_per_unit: 2}\n"
			checkText(t, rulesOf(t, file))
		}
	}
}

// A policy's name is that of its place in the file, whatever stands before and after it, so that usage is kept.
func TestNamesStay(t *testing.T) {
	nameOf := func(text string) string {
		rules := rulesOf(t, text)
		return rules.Policies[len(rules.Policies)-1].Name
	}
	const limit = ", rate_limit: {unit: day, requests_per_unit: 1}}\n"
	const head, last = "domain: d\ndescriptors:\n", "  - {key: a, value: /x/*" + limit
	alone := nameOf(head + last)
	if beside := nameOf(head + "  - {key: b" + limit + "  - {key: a, value: /x/" + limit + "  - {key: a" + limit +
		last); beside != alone {
		t.Errorf("it is %s, and beside others %s", alone, beside)
	}
	if other := nameOf(head + "  - {key: a, value: /x/+" + limit); other == alone {
		t.Errorf("two values have the name %s", other)
	}
	if got := nameOf(head + "  - {key: a, value: " + strings.Repeat("long", 30) + limit); len(
		got) > policy.MaxNameLength {
		t.Errorf("%s is too long", got)
	}
	// Two places that would have one name have two.
	rules := rulesOf(t, head+"  - {key: a-b"+limit+"  - {key: a, value: b"+limit)
	if a, b := rules.Policies[0].Name, rules.Policies[1].Name; a != "d-a-b" || b == a {
		t.Errorf("they are %s and %s", a, b)
	}
}

// A key can come again deeper in the tree, and a name need not be one of an attribute.
func TestAttributesOfKeys(t *testing.T) {
	rules := rulesOf(t, `domain: d
descriptors:
  - key: generic_key
    value: a
    descriptors:
      - key: generic_key
        descriptors:
          - {key: "9 é", rate_limit: {unit: day, requests_per_unit: 1}}
`)
	if by := rules.Policies[0].Limits[0].By; !reflect.DeepEqual(by, []string{"generic_key", "generic_key_2", "x9---"}) {
		t.Errorf("it is by %q", by)
	}
}

// Any text is read in bounded time, without a panic, and what is read can be written.
func FuzzRead(f *testing.F) {
	f.Add("domain: d\ndescriptors:\n  - {key: a, value: 'b*', rate_limit: {unit: day, requests_per_unit: 1}}\n")
	f.Add("domain: d\ndescriptors: [{key: a, descriptors: [{key: b, shadow_mode: true, rate_limit: {unlimited: " +
		"true}}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		rules, mistakes := Read([]File{{"f.yaml", []byte(text)}})
		if len(mistakes) == 0 && len(rules.Text()) < configfile.MaxSize/2 {
			checkText(t, rules)
		}
	})
}
