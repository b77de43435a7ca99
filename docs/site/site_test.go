package main

import (
	"fmt"
	"html"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/browsertest"
)

// written writes the site of this repository and returns its folder and its pages by place.
func written(t *testing.T) (folder string, pages map[string]string) {
	t.Helper()
	s, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	if err := s.write(folder); err != nil {
		t.Fatal(err)
	}
	pages = map[string]string{}
	err = filepath.WalkDir(folder, func(file string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		text, err := os.ReadFile(file)
		place, _ := filepath.Rel(folder, file)
		pages[filepath.ToSlash(place)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder, pages
}

// Each page of the repository is in the site, each command has a page of its own, and one page leads to the next.
func TestEveryPageIsThere(t *testing.T) {
	_, pages := written(t)
	paths, err := markdownFiles("../..")
	if err != nil || len(paths) < 50 {
		t.Fatalf("%d pages, %v", len(paths), err)
	}
	for _, file := range paths {
		if pages[urlOf(file)] == "" {
			t.Errorf("%s is not in the site", file)
		}
	}
	text, err := os.ReadFile("../../" + commandsPath)
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, m := range regexp.MustCompile(`(?m)^## limitctl (.*)$`).FindAllStringSubmatch(string(text), -1) {
		commands++
		file := "commands/" + strings.ReplaceAll(m[1], " ", "-") + ".html"
		if !strings.Contains(pages[file], "<h1 id=\"limitctl-") {
			t.Errorf("%s is not in the site", file)
		}
	}
	if commands < 50 {
		t.Errorf("only %d commands", commands)
	}
	seen := map[string]bool{}
	next := regexp.MustCompile(`<a rel="next" href="([^"]+)"`)
	for at := "index.html"; !seen[at]; {
		seen[at] = true
		if m := next.FindStringSubmatch(pages[at]); m != nil {
			at = path.Join(path.Dir(at), m[1])
		}
	}
	if want := len(paths) + commands; len(seen) != want {
		t.Errorf("the first page and its followers are %d pages, and there are %d", len(seen), want)
	}
}

var (
	reference = regexp.MustCompile(`(?:href|src|srcset)="([^"]*)"`)
	anchor    = regexp.MustCompile(` id="([^"]+)"`)
)

// Links lead to pages, headings and files of the site, and nothing comes from elsewhere.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	folder, pages := written(t)
	ids := map[string][]string{}
	for place, text := range pages {
		for _, m := range anchor.FindAllStringSubmatch(text, -1) {
			if slices.Contains(ids[place], m[1]) {
				t.Errorf("%s has #%s twice", place, m[1])
			}
			ids[place] = append(ids[place], html.UnescapeString(m[1]))
		}
	}
	links := 0
	for place, text := range pages {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			link := html.UnescapeString(m[1])
			if strings.HasPrefix(link, "https://") {
				if !strings.Contains(text, `<a href="`+m[1]) {
					t.Errorf("%s loads %s", place, link)
				}
				continue
			}
			links++
			target, fragment, has := strings.Cut(link, "#")
			if target = path.Join(path.Dir(place), target); strings.HasPrefix(link, "#") {
				target = place
			}
			if _, err := os.Stat(filepath.Join(folder, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", place, link)
			} else if has && !slices.Contains(ids[target], fragment) {
				t.Errorf("%s links to %s, which has no such place", place, link)
			}
		}
	}
	if links < 5000 {
		t.Errorf("only %d links", links)
	}
}

// A link that leads nowhere, and a page that the table of contents does not have, are errors.
func TestMistakesAreFound(t *testing.T) {
	for _, c := range []struct{ name, page, text, want string }{
		{"file", "docs/a.md", "# A\n\nSee [it](b.md).\n", "docs/a.md links to b.md, which is not there"},
		{"heading", "docs/a.md", "# A\n\nSee [it](README.md#b).\n", "docs/a.md links to docs/README.md, which has no heading #b"},
		{"picture", "docs/a.md", "# A\n\n<img src=\"b.png\" alt=\"\">\n", "docs/a.md links to b.png, which is not there"},
		{"unlisted", "docs/b.md", "# B\n", "docs/README.md does not lead to docs/b.md; add it to a list"},
		{"item", "docs/README.md", "# Docs\n\n## Begin\n\n- [A](a.md) has a\n", `docs/README.md: the item "A has a" is not a link`},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			os.Mkdir(filepath.Join(root, "docs"), 0o755)
			for file, text := range map[string]string{
				"README.md": "# Tool\n", "docs/a.md": "# A\n",
				contents: "# Docs\n\n## Begin\n\n- [Tool](../README.md): it\n- [A](a.md): a\n", c.page: c.text,
			} {
				if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s, err := load(root)
			if err == nil {
				err = s.write(filepath.Join(root, "site"))
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, and should have %q", err, c.want)
			}
		})
	}
}

// Headings are named as GitHub names them.
func TestHeadingsAreNamedAsOnTheForge(t *testing.T) {
	for title, want := range map[string]string{
		"Keys, and `hash_by` in a Cluster": "keys-and-hash_by-in-a-cluster", "golang.org/x/time/rate": "golangorgxtimerate",
		"Who is being throttled right now?": "who-is-being-throttled-right-now",
	} {
		if got := githubID(title); got != want {
			t.Errorf("%q is #%s, want #%s", title, got, want)
		}
	}
}

// In a browser no page is wider than a phone or a desk, in the light or in the dark; nothing is on the console, and nothing comes
// from elsewhere.
func TestPagesInABrowser(t *testing.T) {
	folder, pages := written(t)
	kept := []string{"index.html", "contents.html", "limits.html", "commands/loadtest.html", "operations.html", "glossary.html"}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(pages)), 40) {
		t.Run(path.Base(part[0]), func(t *testing.T) {
			b := browsertest.New(t)
			for _, place := range part {
				b.Open("file://"+filepath.Join(folder, place), 400, "dark")
				for _, width := range []int{400, 1400} {
					if width == 1400 {
						b.Turn(width, "light")
					}
					var found []string
					if b.Evaluate(browsertest.Overflowing, &found); len(found) > 0 {
						t.Errorf("%s at %d px: %s", place, width, strings.Join(found, "; "))
					}
					if slices.Contains(kept, place) {
						browsertest.Keep(t, fmt.Sprintf("site-%s-%d.png", strings.ReplaceAll(place, "/", "-"), width), b.Screenshot())
					}
				}
				if len(b.Console) > 0 {
					t.Errorf("the console of %s has %s", place, b.Console)
				}
				for _, asked := range b.Asked {
					if !strings.HasPrefix(asked, "file://"+folder) {
						t.Errorf("%s asks for %s", place, asked)
					}
				}
			}
		})
	}
}

// The search finds pages by their words, a session is copied without its prompts and answers, and the reader can choose the
// dark.
func TestWhatAPageDoes(t *testing.T) {
	b := browsertest.New(t)
	folder, _ := written(t)
	b.Open("file://"+filepath.Join(folder, "tutorial.html"), 1400, "light")
	for words, want := range map[string]string{
		"sliding counter slices": "limits.html", "probe": "commands/probe.html", "xyzzy": "nothing",
		"cannot be reached: connect": "troubleshooting.html", "THUNDERING-herd": "loadtest.html",
		`limitctl: limit "10": it has no period`:       "troubleshooting.html",
		"cost 5 can never fit limit token-bucket:3/1h": "troubleshooting.html",
		// Words that the pages do not have, or have elsewhere.
		"whitelist": "operations.html#let-them-through", "ban": "commands/block.html", "crontab": "automation.html#a-script-or-a-cron-job",
		"unblock": "commands/unblock.html", "throttle": "operations.html#who-is-being-throttled", "quota": "limits.html",
		"429": "troubleshooting.html#status-429", "docker": "deploy/index.html", "brew": "install.html",
	} {
		var hits []string
		search := `(q => (q.focus(), q.value = %q, q.oninput(), null))(document.getElementById("site-query"))`
		b.Evaluate(fmt.Sprintf(search, words), new(any))
		for len(hits) == 0 { // until the index is loaded
			b.Evaluate(`[...document.querySelectorAll("#site-results a, #site-results p")].map(e => e.href || "nothing")`, &hits)
		}
		if !slices.ContainsFunc(hits[:min(3, len(hits))], func(hit string) bool { return strings.Contains(hit, want) }) {
			t.Errorf("the search for %q finds %q, and not first %s", words, hits, want)
		}
	}
	browsertest.Keep(t, "site-search.png", b.Screenshot())
	var copied string
	b.Evaluate(`window.copied = "", navigator.clipboard.writeText = async text => { window.copied = text },
		[...document.querySelectorAll(".code")].find(e => e.querySelector(".typed")).querySelector(".copy").click(), null`, new(any))
	for copied == "" {
		b.Evaluate(`window.copied`, &copied)
	}
	if strings.Contains(copied, "$ ") || !strings.Contains(copied, "\nlimitctl consume user:42") || strings.Contains(copied, "allowed") {
		t.Errorf("a session is copied as %q", copied)
	}
	var theme string
	if b.Evaluate(`document.getElementById("site-theme").click(), document.documentElement.dataset.theme`, &theme); theme != "dark" {
		t.Errorf("the button chooses %q", theme)
	}
}
