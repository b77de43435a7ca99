package cmd

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/output"
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
	w.Getenv = withVariable(w.Getenv, "LIMITCTL_STORE", "redis://"+server.Addr)
	for i, subject := range subjects {
		format := output.Formats()[i%len(output.Formats())]
		stdout, _ := w.try(t, "consume", "--limit", "10/1h", "-o", format, "--", subject)
		if format == "table" {
			if !strings.Contains(stdout, output.Printable(subject)+": 1 of 10 used") ||
				strings.Count(stdout, "\n") != 1 {
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

// One command for each way in which texts of strangers come out: decisions, tables, lists, sums, audits, dashboards.
// A terminal obeys nothing of what any prints, and programs read every name back. A reset and its undo find each.
func TestHostileTextsComeOutAsText(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	w, server, subjects := hostileStore(t)
	reasons := hostiletext.Texts()
	for i, subject := range subjects {
		server.Do("RPUSH", "rl:{"+subject+"}:foreign", "x")
		reason := "why: " + reasons[i%len(reasons)]
		w.try(t, "override", "set", "--exact", "--times", "2", "--for", "1h", "--reason", reason, "--yes", "--",
			subject)
	}
	w.wantIn(t, subjects, "inspect", "*")
	w.wantIn(t, nil, "override", "list") // these have patterns and command lines
	w.wantIn(t, nil, "audit")
	for _, terminal := range []bool{false, true} {
		w.OutIsTerminal = terminal
		stdout, _ := w.try(t, "inspect", "*", "-n", "100000")
		rows, _, applied := strings.Cut(stdout, "\n⚑ ")
		if applied {
			rows += "\n"
		}
		if n := rowsUnder("RESETS IN", rows); n != len(subjects) {
			t.Errorf("%d rows of %d keys are shown:\n%s", n, len(subjects), stdout)
		}
		for _, args := range [][]string{{"consume", "--limit", "10/1h", "--", subjects[0]},
			{"inspect", "*", "--summary"},
			{"override", "list"}, {"audit"}, {"denials"}, {"handover"}, {"doctor"}, {"dashboard", "--once"}} {
			w.try(t, args...)
		}
	}
	w.OutIsTerminal = false
	for i, subject := range subjects {
		if i%8 == 0 {
			w.try(t, "reset", "--exact", "--yes", "--no-backup", "--limit-name", "token*", "--", subject)
			stdout, _ := w.try(t, "inspect", "--exact", "-o", "json", "--", subject)
			if slices.Contains(textsOf(parsed(t, "json", stdout)), subject) {
				t.Errorf("%q is there after its reset", subject)
			}
			w.try(t, "consume", "--limit", "10/1h", "--", subject)
		}
	}
	backup := filepath.Join(t.TempDir(), "backup.jsonl")
	w.try(t, "reset", "*", "--yes", "--backup", backup)
	if n := limitsIn(t.Context(), server.Client()); n != int64(len(subjects)) { // which are the values of others
		t.Errorf("%d keys are left of a reset of all limits of %d subjects", n, len(subjects))
	}
	w.try(t, "undo", backup, "--yes")
	w.wantIn(t, subjects, "inspect", "*")
}

// Files have names and contents that are anybody's. Each text is one of a command line, of a file's name and of what a
// configuration, a report, a backup or a log holds; the commands take turns.
func TestHostileFiles(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	w := newWorld(t)
	folder := t.TempDir()
	for i, text := range hostiletext.Texts() {
		words := [][]string{
			{"check", "a", "--store", text}, {"check", "a", "--limit", text}, {"check", "--policy", text, "a=" + text},
			{text},
			{"check", "--" + text}, {"check", "a", "-o", text}, {"context", "use", text}, {"reset", text, "--yes"},
		}
		w.try(t, words[i%len(words)]...)
		name := strings.NewReplacer("/", "_", "\x00", "_").Replace(text)
		if len(name) > 200 || name == "" || name == "." {
			continue
		}
		path := filepath.Join(folder, name)
		reads := [][]string{{"config", "validate", path}, {"check", "a", "--config", path}, {"report", path},
			{"undo", path, "--yes"}, {"simulate", path, "--limit", "1/1s"}}
		if _, stderr := w.try(t, reads[i%len(reads)]...); strings.Count(stderr, "\n") > 25 {
			t.Errorf("of the missing %q it says %q", name, stderr)
		}
		marshalled, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		quoted := string(marshalled)
		contents := []string{
			text, "policies:\n  " + quoted + ":\n    limits: []\n",
			"policies:\n  api:\n    limits:\n    - {name: " + quoted + ", by: [" + quoted + "], limit: " + quoted +
				"}\n",
			"contexts:\n  " + quoted + ": {store: " + quoted + "}\n", "contexts:\n  dev: {store: " + quoted +
				", prefix: " + quoted + "}\n",
		}
		for j, content := range contents {
			if i > 40 && (i+j)%len(contents) != 0 { // the first are the worst
				continue
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			shows := [][]string{{"config", "diff", path, path}, {"context", "list", "--config", path},
				{"config", "explain", "--policy", "api", "a=b", "--config", path}, {"config", "validate", path}}
			for k, args := range [][]string{shows[(i+j)%len(shows)], reads[(i+j)%len(reads)]} {
				w.try(t, args...)
				format := machineFormats[(i+j+k)%len(machineFormats)]
				if stdout, _ := w.try(t, append(args, "-o", format)...); stdout != "" {
					parsed(t, format, stdout)
				}
			}
		}
	}
}
