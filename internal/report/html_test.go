package report

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func pageOf(t *testing.T, d *Document) []byte {
	t.Helper()
	page, err := (Answer{Report: d}).HTML()
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// Whatever is in a document, its page names no other place, and is text; without others' long texts it is small.
func TestPagesReferToNothing(t *testing.T) {
	for _, d := range slices.AppendSeq(Strangers(), maps.Values(Fixtures())) {
		page := pageOf(t, d)
		if line := Obeyed(string(page)); line != "" || !utf8.Valid(page) {
			t.Errorf("the page has %.200q", line)
		}
		refersToNothing(t, page)
		if len(d.Suggestions) == 0 && len(page) > 60_000 {
			t.Errorf("it has %d bytes", len(page))
		}
	}
}

var (
	tags, values = regexp.MustCompile(`<[a-zA-Z][^<>]*`), regexp.MustCompile(`"[^"]*"`)
	references   = regexp.MustCompile(`(?i)^<(a|script|link|img|iframe|object|embed|image|use|base|form)\b|` +
		`\b(src|srcset|href|action|on[a-z]+)\s*=`)
)

func refersToNothing(t *testing.T, page []byte) {
	t.Helper()
	for _, tag := range tags.FindAll(page, -1) {
		if references.Match(values.ReplaceAll(tag, nil)) {
			t.Errorf("%s", tag)
		}
	}
	style, _, _ := bytes.Cut(page, []byte("</style>"))
	if bytes.Contains(style, []byte("url(")) || bytes.Contains(style, []byte("@import")) {
		t.Error("the style refers to something")
	}
}

// The pages are looked at in a browser, as they are by people.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		want map[string]int // elements by selector
	}{
		{"one", map[string]int{
			".verdict.bad": 1, ".curve path.line": 1, ".overtime .plot": 1, "path.allowed": 1, "path.denied": 1,
			"path.failed": 0, "path.limit": 1,
			".facts div":    9,
			".finding.good": 1, ".finding.bad": 1, "section td": 1,
		}},
		{"five", map[string]int{".curve": 0, ".overtime .plot": 5, ".finding": 3}},
		{"racing", map[string]int{".finding.bad": 2, "path.failed": 1, "path.dropped": 1,
			"section td": 1}},
		{"simulation", map[string]int{".curve": 0, ".overtime .plot": 2, ".finding": 2, "section td": 1}},
		{"empty", map[string]int{".plot": 0, ".verdict.near": 1}},
		{"hostile", map[string]int{"script": 0, "img": 0, "b": 0, "section td": 1}},
		{"none", map[string]int{"section": 0}},
	}
	pages := [][]byte{[]byte(`<!DOCTYPE html><body><p style="width:2000px">wide</p>` +
		`<div class="xs"><span>0</span><span style="margin-left:-2px">1</span></div>`)}
	var selectors []string
	for _, test := range tests {
		pages = append(pages, pageOf(t, Fixtures()[test.name]))
		selectors = slices.AppendSeq(selectors, maps.Keys(test.want))
	}
	for dark, paper := range map[bool]string{false: "rgb(255, 255, 255)", true: "rgb(20, 24, 29)"} {
		shown := pages
		if dark { // the colours alone differ
			shown = pages[:2]
		}
		for _, s := range inBrowser(t, dark, shown, selectors) {
			if s.Page == 0 {
				if len(s.Problems) != 3 { // the page, the paragraph, the label
					t.Errorf("of a page that does not fit it is said: %q", s.Problems)
				}
				continue
			}
			test := tests[s.Page-1]
			where := fmt.Sprintf("%s-%d-dark:%t", test.name, s.Width, dark)
			if len(s.Problems) > 0 {
				t.Errorf("%s: %q", where, s.Problems[:min(len(s.Problems), 8)])
			}
			for selector, want := range test.want {
				got := s.Counts[selector]
				if selector == "section td" { // any number, but some
					got = min(got, want)
				}
				if got != want {
					t.Errorf("%s: %d of %s, want %d", where, got, selector, want)
				}
			}
			if s.Asked != 0 || s.Paper != paper || !strings.HasPrefix(s.Title, "limitctl: ") {
				t.Errorf("%s: it asks %d times, is on %s, and its title is %q", where, s.Asked, s.Paper, s.Title)
			}
		}
	}
}
