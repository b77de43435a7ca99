package output

import (
	"bytes"
	"strings"
	"testing"
)

// Without a terminal, a cell that is much wider than the others of its column moves only the rest of its own row.
func TestALongCellDoesNotPadTheOtherRows(t *testing.T) {
	long := strings.Repeat("x", 1000)
	columns := []Column{{Header: "SUBJECT"}, {Header: "USED", Right: true}, {Header: "NOTE", Right: true}}
	for _, test := range []struct {
		name string
		rows [][]Cell
		want string
	}{
		{"first", [][]Cell{{{Text: "user:1"}, {Text: "4"}, {Text: "ok"}}, {{Text: long}, {Text: "12"}, {Text: "ok"}}}, `
SUBJECT  USED  NOTE
user:1      4    ok
` + long + `    12    ok
`},
		{"all", [][]Cell{{{Text: long}, {Text: "4"}, {Text: "ok"}}, {{Text: long + "y"}, {Text: "5"}, {Text: "ok"}}}, `
SUBJECT` + strings.Repeat(" ", 994) + `  USED  NOTE
` + long + `      4    ok
` + long + `y     5    ok
`},
	} {
		var b bytes.Buffer
		(&Printer{Out: &b}).Table(columns, test.rows)
		if got := b.String(); got != test.want[1:] {
			t.Errorf("%s:\n%s", test.name, got)
		}
	}
}
