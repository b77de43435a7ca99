package layouts

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

const layoutsPath = "../../../docs/layouts.md"

var updateTable = flag.Bool("update", false, "write the table of docs/layouts.md as the layouts are now")

// The table of docs/layouts.md is what the layouts say of themselves. Write it anew with `make docs`.
func TestTheTableOfLayoutsIsUpToDate(t *testing.T) {
	page := must(os.ReadFile(layoutsPath))
	const begin, end = "| `--layout` |", "\n\n"
	before, rest, found := strings.Cut(string(page), begin)
	was, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no table that begins with %q", layoutsPath, begin)
	}
	want := layoutsTable()
	if begin+was == want {
		return
	}
	if !*updateTable {
		t.Fatalf("the table of %s is not up to date; `make docs` writes it", layoutsPath)
	}
	if err := os.WriteFile(layoutsPath, []byte(before+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func layoutsTable() string {
	var b strings.Builder
	b.WriteString("| `--layout` | written by | a key | needs | a reset does not reach |\n|---|---|---|---|---|")
	code := strings.NewReplacer("|", "\\|", "\n", "\\n")
	text := strings.NewReplacer("|", "\\|", "\n", "\\n", "_", "\\_", "*", "\\*", "<", "\\<")
	for _, layout := range All() {
		l := layout.Info()
		fmt.Fprintf(&b, "\n| `%s` | %s | `%s` | %s | %s |", l.Name, text.Replace(l.Writer), code.Replace(l.Example),
			text.Replace(l.Needs), text.Replace(l.Beyond))
	}
	return b.String()
}
