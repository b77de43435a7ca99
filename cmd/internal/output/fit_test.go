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
		{Header: "LIMIT", Shrinks: 8, Drops: 3}, {Drops: 4}, {Header: "USED", Right: true}, {Header: "REMAINING", Right: true, Drops: 2},
		{Header: "RESETS IN", Right: true}}
	var rows [][]Cell
	for _, name := range names {
		rows = append(rows, []Cell{{Text: name[0]}, {Text: name[1]}, {Text: "token-bucket:100/1m"}, {Text: "██████████"}, {Text: "100/100"},
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
	for width, want := range map[int]string{
		80: `
SUBJECT tenant:acme:user:…  NAME api/user-route
SUBJECT                   LIMIT                   USED  REMAINING  RESETS IN
7:route:/v1/charges/{n}   token-bucket:100/1m  100/100          0      59.9s
7:route:/v1/refunds/{n}   token-bucket:100/1m  100/100          0      59.9s
8:route:/v1/charges/{n}   token-bucket:100/1m  100/100          0      59.9s
8:route:/v1/refunds/{n}   token-bucket:100/1m  100/100          0      59.9s
17:route:/v1/charges/{n}  token-bucket:100/1m  100/100          0      59.9s
17:route:/v1/refunds/{n}  token-bucket:100/1m  100/100          0      59.9s
`, 40: `
SUBJECT tenant:acme:user:…  NAME api/user-route
SUBJECT                  USED  RESETS IN
7:route:/v…arges/{n}  100/100      59.9s
7:route:/v…funds/{n}  100/100      59.9s
8:route:/v…arges/{n}  100/100      59.9s
8:route:/v…funds/{n}  100/100      59.9s
17:route:/…arges/{n}  100/100      59.9s
17:route:/…funds/{n}  100/100      59.9s
`} {
		if got := namesTable(width, names); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("at %d columns:\n%s", width, got)
		}
	}
}

// More room never shows less: no column goes, and no name gets shorter. Rows with different names differ, and a
// table that can fit does.
func TestMoreRoomNeverShowsLess(t *testing.T) {
	part := rapid.SampledFrom([]string{"tenant", "acme", "globex", "user", "7", "8", "17", "route", "v1", "charges", "{n}", "日本語"})
	name := func(most int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(part, 1, most).Draw(t, "parts"), rapid.SampledFrom([]string{":", "/"}).Draw(t, "between"))
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SampledFrom([]string{"", "tenant:acme:", "a:"}).Draw(t, "before")
		var names [][2]string
		limits := rapid.SliceOfN(name(4), 1, 3).Draw(t, "limits")
		for _, subject := range rapid.SliceOfN(name(9), 1, 5).Draw(t, "subjects") {
			names = append(names, [2]string{before + subject, rapid.SampledFrom(limits).Draw(t, "limit")})
		}
		var columns int
		shown := make([]int, len(names))
		for width := 44; width < 140; width += rapid.IntRange(1, 9).Draw(t, "wider") {
			text := namesTable(width, names)
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			table := lines[len(lines)-len(names):]
			header := strings.Join(lines[:len(lines)-len(names)], columnGap)
			headers := 0
			for _, column := range []string{"SUBJECT", "NAME", "LIMIT", "USED", "REMAINING", "RESETS IN"} {
				if strings.Contains(header, column) {
					headers++
				}
			}
			if headers < columns {
				t.Fatalf("at %d columns there is less than at fewer:\n%s", width, text)
			}
			columns = headers
			alike := map[string][2]string{}
			for i, row := range table {
				if Width(row) > width {
					t.Fatalf("wider than %d:\n%s", width, text)
				}
				if other, known := alike[row]; known && other != names[i] {
					t.Fatalf("at %d columns %q and %q are alike:\n%s", width, other, names[i], text)
				}
				alike[row] = names[i]
				cells := strings.Split(row, columnGap)
				subject, _, _ := strings.Cut(cells[0], "~")
				n := Width(strings.ReplaceAll(subject, "…", ""))
				if first, _, found := strings.Cut(strings.TrimPrefix(header[strings.Index(header, "SUBJECT"):], "SUBJECT "), "…"); found &&
					strings.HasPrefix(names[i][0], first) {
					n += Width(first)
				}
				if n < shown[i] {
					t.Fatalf("at %d columns less of %q is shown than at fewer:\n%s", width, names[i][0], text)
				}
				shown[i] = n
			}
		}
		if wide := namesTable(160, names); shown[0] != Width(names[0][0]) && Width(names[0][0]) < 60 {
			t.Fatalf("at 160 columns %q is cut:\n%s", names[0][0], wide)
		}
	})
}
