//go:build unix

package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/limitctl/limitctl/cmd"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

var update = flag.Bool("update", false, "write what pages show now")

// TestMain makes this binary the limitctl in the PATH of the pages. It waits a minute for a store's answer, so that
// a busy machine is in time.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"limitctl": func() { os.Exit(cmd.Main("", time.Minute)) }})
}

// The test runs what the pages show. The word behind its fence says what happens with a block:
//
//	console  Each line that begins with "$ " is run; lines "> " right below continue it.
//	         What it prints must be what stands below. A line "…" stands for any lines.
//	sh       It is run, and each of its commands must succeed. One that begins with #!
//	         must be a file of docs/samples or docs/examples; it is not run.
//	go       It must compile.
//	yaml     It must be a part of a file of docs/samples.
//	text     It is only shown.
//
// A comment above the fence can change this:
//
//	<!-- not run: WHY -->   The block is only shown.
//	<!-- figures vary -->   No number, bar or curve in the output is compared.
//	<!-- warnings vary -->  What a report says of the machine, and that a wait begins, is not compared.
//	<!-- order varies -->   Lines are compared in any order.
//
// "and" joins several: <!-- figures and order vary -->.
//
// One bash runs the blocks of a page in their order, in a copy of docs/samples, with a new home directory and a new
// Redis. That Redis is the localhost:6379 of the page. Programs that it starts in the background listen at the
// addresses in served, which are replaced by free ones, and end with the page. It is morning on the page's machine.
//
// After a change of the output of commands, write the pages again and read the difference:
//
//	go test . -run TestThePages -update
func TestThePagesShowWhatCommandsPrint(t *testing.T) {
	tier.Full(t, "the pages of the docs, which bash runs")
	commands := 0
	t.Run("pages", func(t *testing.T) {
		for _, path := range pagesOfDocs(t) {
			page := readPage(t, path)
			commands += len(page.commands())
			if len(page.commands()) > 0 {
				t.Run(path, func(t *testing.T) {
					t.Parallel()
					page.run(t)
				})
			}
		}
	})
	if commands < 40 {
		t.Errorf("only %d commands were run", commands)
	}
}

// What `make demo` runs, on a Redis and on a file. It ends what it started when it is interrupted, too.
func TestTheDemo(t *testing.T) {
	limitctl, err := exec.LookPath("limitctl")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "demo")
	build := exec.Command("go", "build", "-tags", "demo", "-o", program, "./docs/demo")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, test := range []struct {
		name, path  string
		interrupted bool
		code        int
	}{
		{"redis", os.Getenv("PATH"), false, 0},
		{"file", t.TempDir(), false, 0},
		{"interrupted", os.Getenv("PATH"), true, 130},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			temporary, err := os.MkdirTemp("", "") // a short path, for sockets
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(temporary)
			demo := exec.Command(program, limitctl)
			demo.Env = append(os.Environ(), "TMPDIR="+temporary, "PATH="+test.path)
			stdout, err := demo.StdoutPipe()
			if demo.Stderr = demo.Stdout; err == nil {
				err = demo.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer demo.Process.Kill() // if it still runs
			var out strings.Builder
			for lines := bufio.NewScanner(stdout); lines.Scan(); {
				fmt.Fprintln(&out, lines.Text())
				if test.interrupted && strings.HasPrefix(lines.Text(), "$ limitctl reset") {
					demo.Process.Signal(os.Interrupt)
				}
			}
			demo.Wait()
			left, err := os.ReadDir(temporary)
			if demo.ProcessState.ExitCode() != test.code || len(left) > 0 || err != nil {
				t.Errorf("it ends with %v and leaves %v, %v:\n%s", demo.ProcessState, left, err, &out)
			}
			for _, want := range []string{"FAIL ", "PASS ", " the limit\n", "fixed-window ", "✓ the same\n"} {
				if !test.interrupted && !strings.Contains(out.String(), want) {
					t.Errorf("it does not show %q:\n%s", want, &out)
				}
			}
		})
	}
}

// Blocks that are shown but not run are part of a file.
func TestThePagesShowWhatFilesHold(t *testing.T) {
	tier.Full(t, "the pages of the docs, which bash runs")
	var samples []string
	for _, pattern := range []string{"docs/samples/*", "docs/examples/*.sh"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, string(text))
		}
	}
	programs := 0
	for _, path := range pagesOfDocs(t) {
		for _, b := range readPage(t, path).blocks {
			text := strings.Join(b.lines, "\n") + "\n"
			shown := b.language == "yaml" || b.language == "sh" && strings.HasPrefix(text, "#!")
			switch {
			case b.notRun != "":
			case shown && !slices.ContainsFunc(
				samples, func(s string) bool { return strings.Contains("\n"+s, "\n"+text) }):
				t.Errorf("%s:%d: no file of docs/samples or docs/examples holds this block", path, b.line)
			case b.language == "go":
				programs++
				file := filepath.Join(t.TempDir(), "main.go")
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
					t.Errorf("%s:%d: %v\n%s", path, b.line, err, out)
				}
			}
		}
	}
	if programs == 0 {
		t.Error("no page has a Go program")
	}
}

// Links between the pages lead to existing files and headings.
func TestThePagesLinkToWhatIsThere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	pages := pagesOfDocs(t)
	for _, pattern := range []string{"docs/*/README.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil || len(more) == 0 {
			t.Fatal(pattern, err)
		}
		pages = append(pages, more...)
	}
	links := 0
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], ":") {
				continue // a link to the web
			}
			links++
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", path, target)
			} else if m[2] != "" && !slices.Contains(anchors(t, target), m[2]) {
				t.Errorf("%s links to %s, which has no heading #%s", path, target, m[2])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were followed", links)
	}

	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z_/A-Z]+/[a-z_]+\\.(?:go|lua))`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 {
		t.Errorf("ARCHITECTURE.md names %d files", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("ARCHITECTURE.md names %s, which is not there", m[1])
		}
	}
}

// anchors returns the names of a page's headings in links.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// page is a Markdown file; block is a fenced part of it.
type page struct {
	path   string
	lines  []string
	blocks []block
}

type block struct {
	language string
	line     int // of its first line in the file, from 1
	lines    []string
	notRun   string // why it is not run
	vary     []string
}

// command is one command of a page. output is its output in the page, from line first to line end of the file; a
// command of a sh block has none.
type command struct {
	text       string
	line       int
	first, end int
	compared   bool
	vary       []string
}

func pagesOfDocs(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(paths), err)
		}
		pages = append(pages, paths...)
	}
	return pages
}

func readPage(t *testing.T, path string) *page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{path: path, lines: strings.Split(string(text), "\n")}
	const whats = `(?:figures|warnings|order)`
	comment := regexp.MustCompile(`^<!-- (?:not run: (.+)|(` + whats + `(?: and ` + whats + `)*) (?:vary|varies)) -->$`)
	var open *block
	for i, line := range p.lines {
		fence := strings.TrimLeft(line, " ")
		switch {
		case open == nil && strings.HasPrefix(fence, "```"):
			open = &block{language: strings.TrimPrefix(fence, "```"), line: i + 2}
			if !slices.Contains([]string{"console", "sh", "go", "yaml", "text", "{toctree}"}, open.language) {
				t.Errorf("%s:%d: a block of %q; say console, sh, go, yaml or text", path, i+1, open.language)
			}
			above := ""
			if i > 0 {
				above = p.lines[i-1]
			}
			if m := comment.FindStringSubmatch(above); m != nil {
				open.notRun, open.vary = m[1], strings.Split(m[2], " and ")
			} else if strings.HasPrefix(above, "<!--") {
				t.Errorf("%s:%d: no such rule: %s", path, i, above)
			}
		case open != nil && strings.HasPrefix(fence, "```"):
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		}
	}
	if open != nil {
		t.Errorf("%s: the last block does not end", path)
	}
	return p
}

// commands returns the page's commands in order.
func (p *page) commands() []command {
	var all []command
	for _, b := range p.blocks {
		text := strings.Join(b.lines, "\n")
		switch {
		case b.notRun != "":
		case b.language == "sh" && !strings.HasPrefix(text, "#!"):
			all = append(all, command{text: "set -e\n" + text + "\nset +e", line: b.line})
		case b.language == "console":
			var last *command
			for i, line := range b.lines {
				at := b.line + i // the index of the next line in the file
				if typed, is := strings.CutPrefix(line, "$ "); is {
					all = append(all, command{text: typed, line: at, first: at, end: at, compared: true, vary: b.vary})
					last = &all[len(all)-1]
				} else if more, is := strings.CutPrefix(line, "> "); is && last != nil && last.first == at-1 {
					last.text += "\n" + more
					last.first, last.end = at, at
				} else if last != nil {
					last.end = at
				}
			}
		}
	}
	return all
}

// run runs the page's commands and compares their output.
func (p *page) run(t *testing.T) {
	day := time.Now().UTC().YearDay()
	outputs, err := p.session(t)
	if time.Now().UTC().YearDay() != day { // windows of a day ended within the page, with their usage
		outputs, err = p.session(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	var stale []command
	var now [][]string
	for i, c := range p.commands() {
		if !c.compared {
			continue
		}
		want := p.lines[c.first:c.end]
		got := withoutNotices(strings.Split(strings.TrimSuffix(outputs[i], "\n"), "\n"))
		if !matches(normal(want, c.vary), normal(got, c.vary)) {
			t.Errorf("%s:%d: %s\nprints\n\t%s\nand the page says\n\t%s",
				p.path, c.line, c.text, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			stale, now = append(stale, c), append(now, got)
		}
	}
	if *update {
		p.write(t, stale, now)
	}
}

// session runs the page's commands and returns the output of each, as on a reader's machine. An error means that
// not all were run.
func (p *page) session(t *testing.T) (outputs []string, err error) {
	server := redistest.Start(t)
	home := t.TempDir()
	work := filepath.Join(home, "samples")
	if err := os.CopyFS(work, os.DirFS("docs/samples")); err != nil {
		t.Fatal(err)
	}
	var toHere, toThere []string
	for _, address := range served {
		free := freeAddress(t)
		toHere, toThere = append(toHere, address, free), append(toThere, free, address)
	}
	here := strings.NewReplacer(append(toHere, "localhost:6379", server.Addr)...)
	if err := replaceInFiles(work, here); err != nil {
		t.Fatal(err)
	}
	commands := p.commands()
	var script strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&script, "%s\nprintf '\\0'\n", here.Replace(c.text))
	}
	path := filepath.Join(home, "session")
	if err := os.WriteFile(path, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", path)
	bash.Dir = work
	bash.Env = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + home, "USER=me", "TERM=dumb", "LANG=C.UTF-8",
		"TZ=" + morning(time.Now()),
	}
	// Programs that a page starts in the background belong to a group, which ends with the page. They keep the
	// output open, so it goes to a file.
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := os.Create(filepath.Join(home, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	bash.Stdout, bash.Stderr = output, output
	err = bash.Run()
	if bash.Process != nil {
		syscall.Kill(-bash.Process.Pid, syscall.SIGKILL)
	}
	printed, wrong := os.ReadFile(output.Name())
	if wrong != nil {
		t.Fatal(wrong)
	}
	// The page shows the addresses of a reader's machine.
	wide := strings.Repeat(" ", max(0, len(server.Addr)-len("localhost:6379"))) // so that columns stay aligned
	there := strings.NewReplacer(append(toThere,
		server.Addr+"  ", "localhost:6379  "+wide, server.Addr, "localhost:6379", home, "/home/me")...)
	zone := regexp.MustCompile(`(\d\d:\d\d:\d\d) (?:GMT|[-+]\d\d)\b`)
	outputs = strings.Split(zone.ReplaceAllString(there.Replace(string(printed)), "$1 UTC"), "\x00")
	if len(outputs) <= len(commands) {
		failed := commands[len(outputs)-1]
		return nil, fmt.Errorf("%s:%d: %v, and so ended:\n%s\n%s", p.path, failed.line, err, failed.text,
			outputs[len(outputs)-1])
	}
	return outputs, nil
}

// morning returns a time zone in which it is nine o'clock or a little later. "Until 04:00" is then tomorrow
// morning, whenever the page is run.
func morning(now time.Time) string {
	ahead := (9-now.UTC().Hour()+12+24)%24 - 12 // hours of -12 to 11
	return fmt.Sprintf("Etc/GMT%+d", -ahead)    // these names have the sign of POSIX: Etc/GMT-2 is two hours ahead
}

// served are the addresses in pages at which they start servers. Each run gets free ones.
var served = []string{
	"127.0.0.1:3000", "127.0.0.1:8000", "127.0.0.1:8001", "127.0.0.1:8002",
	"127.0.0.1:8080", "127.0.0.1:9090",
}

// freeAddress returns an address of the loopback at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := redistest.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// write writes the current output of stale commands into the page.
func (p *page) write(t *testing.T, stale []command, now [][]string) {
	for i := len(stale) - 1; i >= 0; i-- {
		if want := p.lines[stale[i].first:stale[i].end]; slices.Contains(want, "…") {
			continue // a person has to choose what to leave out
		}
		if len(now[i]) == 1 && now[i][0] == "" {
			now[i] = nil
		}
		p.lines = slices.Replace(p.lines, stale[i].first, stale[i].end, now[i]...)
	}
	if err := os.WriteFile(p.path, []byte(strings.Join(p.lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replaceInFiles puts the address of the page's Redis into the samples.
func replaceInFiles(dir string, r *strings.Replacer) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(r.Replace(string(text))), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// withoutNotices removes the line on stderr that names the store, which every command prints.
func withoutNotices(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "limitctl: using ") && (strings.HasSuffix(line, "(chosen by context use)") ||
			strings.HasSuffix(line, "(no --store given)"))
	})
}

// varies are the parts of an output that differ between runs.
var varies = []struct {
	what    *regexp.Regexp
	becomes string
}{
	{regexp.MustCompile(`\d{8}T\d{6}\.\d{3}Z-\d+\.jsonl`), "BACKUP"},
	{regexp.MustCompile(`\b(override|revoke) [0-9a-z]{8}\b`), "$1 ID"},
	{regexp.MustCompile(`(\(|\S {2,})[0-9a-z]{8}(\)|$)`), "${1}ID$2"}, // of an override, in tables
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?( UTC|Z)?`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`(^|[ (])((\d+d)?(\d+h)?(\d+m)?\d+(\.\d+)? ?(ns|µs|ms|s)|(\d+d)?(\d+h)?\d+m|(\d+d)?\d+h|\d+d)\b`), "${1}DURATION"},
	{regexp.MustCompile(`Redis \d+\.\d+\.\d+`), "Redis VERSION"},
	{regexp.MustCompile(`\bme( as \S+)?@\S+`), "me@HOST"},
}

// figures are additional parts that differ in an output about speed.
var figures = []struct {
	what    *regexp.Regexp
	becomes string
}{
	{regexp.MustCompile(`DURATION|[-+<>]?\d[\d,.]*( ?[kMG]?B\b)?`), "FIGURE"},
	// what has come back meanwhile
	{regexp.MustCompile(` {2,}-( {2}|$)`), "  FIGURE$1"},
	// p99.99 needs 10,000 requests
	{regexp.MustCompile(`^(TIME +mean|latency|service|lag)( +p?FIGURE)+`), "$1 FIGURES"},
	{regexp.MustCompile(`[█▇▆▅▄▃▂▁░·|]{3,}`), "BAR"},
}

// warnings are lines of a report that depend on the load of the machine.
var warnings = regexp.MustCompile(`^(! |limitctl: waiting |(dropped|no answer) +[·▁-█]+$)`)

// normal returns an output without the varying parts. The widths of columns follow their content.
func normal(lines, vary []string) []string {
	var all []string
	for _, line := range lines {
		if slices.Contains(vary, "warnings") && warnings.MatchString(line) {
			continue
		}
		for _, v := range varies {
			line = v.what.ReplaceAllString(line, v.becomes)
		}
		if slices.Contains(vary, "figures") {
			for _, f := range figures {
				line = f.what.ReplaceAllString(line, f.becomes)
			}
		}
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			all = append(all, line)
		}
	}
	if slices.Contains(vary, "order") {
		slices.Sort(all)
	}
	return all
}

// matches compares lines; … matches any lines.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		for i := range len(got) + 1 {
			if matches(want[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
}
