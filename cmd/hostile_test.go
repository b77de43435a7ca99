package cmd

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// ourStyles are the only sequences that people's output has, and that on a terminal.
var ourStyles = regexp.MustCompile("\x1b\\[(7;)?(1;)?([0127]|3[1236])m")

// checkText makes sure that a terminal obeys nothing of what people are shown.
func checkText(t *testing.T, what, text string, styles bool) {
	t.Helper()
	if styles {
		text = ourStyles.ReplaceAllString(text, "")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if output.Escape(line) != line {
			t.Errorf("%s: a terminal obeys something in %q", what, line)
		}
	}
}

// try runs limitctl, whatever it ends with, and makes sure that its outputs are text that
// people see.
func (w *world) try(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	w.out.Reset()
	w.err.Reset()
	Run(context.Background(), args, w.Env)
	what := "limitctl " + strings.Join(args, " ")
	if w.OutIsTerminal || !slices.Contains(args, "csv") { // which in a pipe is what it is
		checkText(t, what, w.out.String(), w.OutIsTerminal)
	}
	checkText(t, what, w.err.String(), w.OutIsTerminal)
	return w.out.String(), w.err.String()
}

// parsed reads what was printed in a format back as what JSON would be, and CSV as lists
// of texts.
func parsed(t *testing.T, format, text string) (document any) {
	t.Helper()
	var err error
	switch format {
	case "json":
		err = json.Unmarshal([]byte(text), &document)
	case "jsonl":
		var all []any
		for line := range strings.Lines(text) {
			var one any
			if err = json.Unmarshal([]byte(line), &one); err != nil {
				break
			}
			all = append(all, one)
		}
		document = all
	case "csv":
		document, err = csv.NewReader(strings.NewReader(text)).ReadAll()
	}
	if err != nil {
		t.Errorf("as %s: %v\n%s", format, err, text)
	}
	return document
}

// textsOf returns all texts of a document, wherever they are.
func textsOf(document any) (all []string) {
	switch document := document.(type) {
	case string:
		return []string{document}
	case []any:
		for _, one := range document {
			all = append(all, textsOf(one)...)
		}
	case [][]string:
		for _, row := range document {
			all = append(all, row...)
		}
	case map[string]any:
		for _, one := range document {
			all = append(all, textsOf(one)...)
		}
	}
	return all
}

// machineFormats are all formats but the table.
var machineFormats = slices.DeleteFunc(output.Formats(), func(format string) bool { return format == "table" })

// wantIn runs a command in every format, and wants all of names in each as they are.
func (w *world) wantIn(t *testing.T, names []string, args ...string) {
	t.Helper()
	for _, format := range machineFormats {
		args := append([]string{args[0], "-o", format}, args[1:]...)
		stdout, _ := w.try(t, args...)
		got := textsOf(parsed(t, format, stdout))
		for _, name := range names {
			if !slices.Contains(got, name) {
				t.Errorf("limitctl %q has no %q:\n%s", args, name, stdout)
				break
			}
		}
	}
}

// hostileStore is a world with a server that has a key for each hostile subject.
func hostileStore(t *testing.T) (w *world, server *redistest.Server, subjects []string) {
	t.Helper()
	w, server, subjects = newWorld(t), redistest.Start(t), hostiletext.Subjects()
	before := w.Getenv
	w.Getenv = func(name string) string {
		if name == "LIMITCTL_STORE" {
			return "redis://" + server.Addr
		}
		return before(name)
	}
	for i, subject := range subjects {
		format := output.Formats()[i%len(output.Formats())]
		stdout, _ := w.try(t, "consume", "--limit", "10/1h", "-o", format, "--", subject)
		if format == "table" {
			if !strings.Contains(stdout, output.Printable(subject)+": 1 of 10 used") || strings.Count(stdout, "\n") != 1 {
				t.Errorf("consumed of %q: %q", subject, stdout)
			}
		} else if !slices.Contains(textsOf(parsed(t, format, stdout)), subject) {
			t.Errorf("consumed of %q: %q", subject, stdout)
		}
	}
	return w, server, subjects
}

// rowsUnder counts the rows of a table with that text in its header. What all rows share may
// be in a line above that.
func rowsUnder(header, table string) int {
	_, rows, _ := strings.Cut(table, header)
	return strings.Count(rows, "\n") - 1
}

// auditRow is how a run begins in the table of the audit.
var auditRow = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d `)

func TestHostileSubjectsInDecisions(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	w, _, subjects := hostileStore(t)
	for i, subject := range subjects {
		w.wantIn(t, []string{subject}, "check", "--limit", "10/1h", "--", subject)
		if i%3 == 0 {
			w.wantIn(t, []string{subject}, "refund", "--limit", "10/1h", "--", subject)
			w.wantIn(t, []string{subject}, "consume", "--limit", "10/1h", "--limit", "sliding-log:5/1h", "--", subject)
		}
		w.OutIsTerminal = true
		if stdout, _ := w.try(t, "check", "--limit", "10/1h", "--", subject); strings.Count(stdout, "\n") != 1 {
			t.Errorf("checked %q: %q", subject, stdout)
		}
		w.try(t, "check", "--limit", "10/1h", "-o", "csv", "--", subject)
		w.OutIsTerminal = false
	}
}

func TestHostileSubjectsInLists(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	w, server, subjects := hostileStore(t)
	w.wantIn(t, subjects, "inspect", "*")
	w.wantIn(t, subjects, "inspect", "*", "--sort", "key", "--bytes")
	for _, terminal := range []bool{false, true} {
		w.OutIsTerminal = terminal
		for _, args := range [][]string{{"inspect", "*", "--all"}, {"inspect", "*", "--all", "--sort", "key", "--bytes"}} {
			if stdout, _ := w.try(t, args...); rowsUnder("RESETS IN", stdout) != len(subjects) {
				t.Errorf("%q shows %d rows of %d keys:\n%s", args, rowsUnder("RESETS IN", stdout), len(subjects), stdout)
			}
		}
		w.try(t, "inspect", "*", "--summary")
		w.try(t, "dashboard", "--once")
	}
	w.OutIsTerminal = false
	if _, stderr := w.try(t, "inspect", "*", "-o", "csv"); !strings.Contains(stderr, "a spreadsheet would take") {
		t.Errorf("of formulas it says %q", stderr)
	}

	for _, subject := range subjects { // one foreign value for each
		server.Do("RPUSH", "rl:{"+subject+"}:foreign", "x")
	}
	w.wantIn(t, subjects, "inspect", "*", "--foreign")
	if stdout, _ := w.try(t, "inspect", "*", "--foreign"); rowsUnder("HOLDS", stdout) != len(subjects) {
		t.Errorf("%d rows of %d foreign keys:\n%s", rowsUnder("HOLDS", stdout), len(subjects), stdout)
	}
	w.try(t, "doctor")
	w.wantIn(t, nil, "doctor")
}

// A reset, its audit and its undo name strangers, too.
func TestHostileSubjectsInChanges(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	w, _, subjects := hostileStore(t)
	before, user := w.Getenv, ""
	w.Getenv = func(name string) string {
		if name == "USER" {
			return user
		}
		return before(name)
	}
	users := hostiletext.Texts()
	for i, subject := range subjects {
		user = users[i%len(users)]
		w.try(t, "reset", "--exact", "--dry-run", "--", subject)
		backup := filepath.Join(t.TempDir(), "backup.jsonl")
		format := output.Formats()[i%len(output.Formats())]
		stdout, _ := w.try(t, "reset", "--exact", "--yes", "-o", format, "--backup", backup, "--", subject)
		if format != "table" && !slices.Contains(textsOf(parsed(t, format, stdout)), backup) {
			t.Errorf("reset of %q: %s", subject, stdout)
		}
		if stdout, _ := w.try(t, "inspect", "*", "-o", "json"); slices.Contains(textsOf(parsed(t, "json", stdout)), subject) {
			t.Errorf("%q is there after its reset", subject)
		}
		w.try(t, "undo", backup, "--dry-run")
		w.try(t, "undo", backup, "--yes")
		if i%10 == 0 {
			w.wantIn(t, subjects[:i], "inspect", "*")
		}
	}
	w.wantIn(t, subjects, "inspect", "*")
	for _, format := range machineFormats {
		stdout, _ := w.try(t, "audit", "-o", format)
		if got := textsOf(parsed(t, format, stdout)); !slices.Contains(got, "\x1b[31mred") {
			t.Errorf("the audit as %s has not who it was:\n%s", format, stdout)
		}
	}
	runs, _ := w.try(t, "audit", "-o", "jsonl")
	for _, terminal := range []bool{false, true} {
		w.OutIsTerminal = terminal
		stdout, _ := w.try(t, "audit")
		// Commands and backups have lines of their own where there is no room for a column.
		rows, backups := len(auditRow.FindAllString(stdout, -1)), strings.Count(stdout, "\n    backup ")
		if terminal && backups != len(subjects) || rows != strings.Count(runs, "\n") {
			t.Errorf("the audit of %d runs has %d rows and %d backups:\n%s", strings.Count(runs, "\n"), rows, backups, stdout)
		}
	}
}

// Files have names and contents that are anybody's.
func TestHostileFiles(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	w := newWorld(t)
	folder := t.TempDir()
	for i, text := range hostiletext.Texts() {
		name := strings.NewReplacer("/", "_", "\x00", "_").Replace(text)
		if len(name) > 200 || name == "" || name == "." {
			continue
		}
		path := filepath.Join(folder, name)
		for _, args := range [][]string{
			{"report", path}, {"report", path, "--against", path},
			{"undo", path, "--yes"}, {"simulate", path, "--limit", "1/1s"}, {"config", "validate",
				path},
			{"check", "a", "--config", path}, {"check", "a", "--store", text}, {"check", "a", "--limit", text}, {"check", "--policy",
				text, "a=" + text},
			{"check", "a", "--prefix", text, "--limit", "1/1s"}, {"inspect", text, "--limit-name", text}, {text}, {"check", "--" + text},
			{"config", text}, {"check", "a", "-o", text}, {"context", "show", text}, {"check", "a", "--context", text, "--limit", "1/1h"},
			{"reset", text, "--yes"}, {"inspect", "--policy", text, text}, {"loadtest", "--limit", text}, {"report", path, "--html", path},
			{"check", "a", "--limit", "1/1h", "--timeout", text},
		} {
			if _, stderr := w.try(t, args...); i%7 == 0 && strings.Count(stderr, "\n") > 25 {
				t.Errorf("%q says %q", args, stderr)
			}
		}
		// One that is there, and holds the text where a name is wanted.
		marshalled, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		quoted := string(marshalled)
		for j, content := range []string{
			text, "policies:\n  " + quoted + ":\n    limits: []\n",
			"policies:\n  api:\n    limits:\n    - {name: " + quoted + ", by: [" + quoted + "], limit: " + quoted + "}\n",
			"contexts:\n  " + quoted + ": {store: " + quoted + "}\n", "contexts:\n  dev: {store: " + quoted + ", prefix: " + quoted + "}\n",
		} {
			if i > 40 && (i+j)%5 != 0 { // the first are the worst
				continue
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"config", "validate", path}, {"config", "show", "--config", path}, {"context", "list", "--config", path},
				{"context", "show", "dev", "--config", path},
			} {
				w.try(t, args...)
				format := machineFormats[(i+j)%len(machineFormats)]
				if stdout, _ := w.try(t, append(args, "-o", format)...); stdout != "" {
					parsed(t, format, stdout)
				}
			}
		}
		for _, args := range [][]string{{"report", path}, {"undo", path, "--yes"}, {"simulate", path, "--limit", "1/1s"}} {
			w.try(t, args...)
		}
	}
}

func TestHostileAttributes(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "limitctl.yaml")
	policy := "policies:\n  api:\n    limits:\n    - {name: user, by: [user], limit: 10/1h}\n"
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range hostiletext.Subjects() {
		w.wantIn(t, nil, "check", "--config", path, "--policy", "api", "user="+text)
		w.try(t, "consume", "--config", path, "--policy", "api", "user="+text)
		w.try(t, "inspect", "--config", path, "--policy", "api", "user="+text)
		for _, format := range machineFormats {
			stdout, _ := w.try(t, "config", "explain", "--config", path, "--policy", "api", "user="+text, "-o", format)
			parsed(t, format, stdout)
		}
		w.try(t, "config", "explain", "--config", path, "--policy", "api", "user="+text)
	}
	stdout, _ := w.try(t, "inspect", "--config", path, "--policy", "api", "-o", "jsonl")
	if rows := strings.Count(stdout, "\n"); rows != len(hostiletext.Subjects()) {
		t.Errorf("%d keys of %d users", rows, len(hostiletext.Subjects()))
	}
}

// Logs that are simulated hold whatever was requested.
func TestHostileLogs(t *testing.T) {
	w := newWorld(t)
	folder := t.TempDir()
	var log bytes.Buffer
	texts := hostiletext.Texts()
	for i, text := range texts {
		line, err := json.Marshal(map[string]any{"time": 1_700_000_000 + i/3, "key": text})
		if err != nil {
			t.Fatal(err)
		}
		log.Write(append(line, '\n'))
		log.Write(append(line, '\n'))
		log.WriteString(text + "\n") // and what is no line
	}
	path, saved, page := filepath.Join(folder, "log.jsonl"), filepath.Join(folder, "saved.json"), filepath.Join(folder, "page.html")
	if err := os.WriteFile(path, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", path, "--log-format", "jsonl", "--key-field", "key", "--limit", "1/1h", "--limit", "sliding-log:1/1m"}
	w.run(t, exitYes, append(args, "--save", saved, "--html", page)...)
	for _, terminal := range []bool{false, true} {
		w.OutIsTerminal = terminal
		w.try(t, args...)
		w.try(t, "report", saved)
		w.try(t, "report", saved, "--against", saved)
	}
	w.OutIsTerminal = false
	w.wantIn(t, nil, args...)
	w.wantIn(t, nil, "report", saved)
	w.wantIn(t, nil, "report", saved, "--against", saved)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	checkText(t, "the page", strings.ReplaceAll(string(html), "\t", ""), false)
}
