package output

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// namesTable is a table like that of inspect.
func namesTable(width int, names [][2]string) string {
	columns := []Column{{Header: "SUBJECT", Shrinks: 8, Names: true}, {Header: "NAME", Shrinks: 8, Names: true},
		{Header: "LIMIT", Shrinks: 8, Drops: 3}, {Drops: 4}, {Header: "USED", Right: true},
		{Header: "REMAINING", Right: true, Drops: 2},
		{Header: "RESETS IN", Right: true}}
	var rows [][]Cell
	for _, name := range names {
		rows = append(rows, []Cell{{Text: name[0]}, {Text: name[1]}, {Text: "token-bucket:100/1m"},
			{Text: "██████████"}, {Text: "100/100"},
			{Text: "0"}, {Text: "59.9s"}})
	}
	var b bytes.Buffer
	(&Printer{Out: &b, Width: width}).Table(columns, rows)
	return b.String()
}

// At 80 columns all rows of a policy differ.
func TestTablesTellSubjectsApart(t *testing.T) {
	var names [][2]string
	for _, user := range []string{"7", "8", "17"} {
		names = append(names, [2]string{"tenant:acme:user:" + user + ":route:/v1/charges/{n}", "api/user-route"},
			[2]string{"tenant:acme:user:" + user + ":route:/v1/refunds/{n}", "api/user-route"})
	}
	const want = `
SUBJECT tenant:acme:user:…  NAME               USED  REMAINING  RESETS IN
7:route:/v1/charges/{n}     api/user-route  100/100          0      59.9s
7:route:/v1/refunds/{n}     api/user-route  100/100          0      59.9s
8:route:/v1/charges/{n}     api/user-route  100/100          0      59.9s
8:route:/v1/refunds/{n}     api/user-route  100/100          0      59.9s
17:route:/v1/charges/{n}    api/user-route  100/100          0      59.9s
17:route:/v1/refunds/{n}    api/user-route  100/100          0      59.9s
`
	if got := namesTable(80, names); got != want[1:] {
		t.Errorf("%s", got)
	}
}

// Rows with different names differ, and a table that can fit does.
func TestTablesFit(t *testing.T) {
	part := rapid.SampledFrom([]string{"tenant", "acme", "globex", "user", "7", "8", "17", "route", "v1", "charges",
		"{n}", "日本語"})
	name := func(most int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(part, 1, most).Draw(t, "parts"),
				rapid.SampledFrom([]string{":", "/"}).Draw(t, "between"))
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SampledFrom([]string{"", "tenant:acme:", "a:"}).Draw(t, "before")
		var names [][2]string
		limits := rapid.SliceOfN(name(4), 1, 3).Draw(t, "limits")
		for _, subject := range rapid.SliceOfN(name(9), 1, 5).Draw(t, "subjects") {
			names = append(names, [2]string{before + subject, rapid.SampledFrom(limits).Draw(t, "limit")})
		}
		for width := 50; width < 140; width += rapid.IntRange(1, 9).Draw(t, "wider") {
			text := namesTable(width, names)
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			alike := map[string][2]string{}
			for i, row := range lines[len(lines)-len(names):] {
				if Width(row) > width {
					t.Fatalf("wider than %d:\n%s", width, text)
				}
				if other, known := alike[row]; known && other != names[i] {
					t.Fatalf("at %d columns %q and %q are alike:\n%s", width, other, names[i], text)
				}
				alike[row] = names[i]
			}
		}
		if wide := namesTable(200, names); !strings.Contains(wide, names[0][0]) {
			t.Fatalf("at 200 columns %q is cut:\n%s", names[0][0], wide)
		}
	})
}
