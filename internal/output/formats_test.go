package output

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/hostiletext"
)

// answer is an answer with given documents and rows.
type answer struct {
	document any
	records  [][]string
}

func (a answer) Document() any       { return a.document }
func (a answer) Lines() []any        { return []any{a.document} }
func (a answer) Records() [][]string { return a.records }
func (a answer) Print(p *Printer)    { p.Line("%v", a.document) }

func printed(t *testing.T, p Printer, a Answer) string {
	t.Helper()
	var b bytes.Buffer
	p.Data = &b
	if err := p.Answer(a); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// names are texts that JSON can contain unchanged.
func names() []string {
	return slices.DeleteFunc(hostiletext.Texts(), func(text string) bool { return !utf8.ValidString(text) })
}

func TestJSONIsSafeAndTheSame(t *testing.T) {
	for _, format := range []Format{"json", "jsonl"} {
		text := printed(t, Printer{Format: format}, answer{document: names()})
		if at := obeyed(text, false); at != "" {
			t.Errorf("%s has %s", format, at)
		}
		var back []string
		if err := json.Unmarshal([]byte(text), &back); err != nil || !slices.Equal(back, names()) {
			t.Errorf("%s: %v, %q", format, err, back)
		}
	}
}

func TestCSVParsesBack(t *testing.T) {
	records := [][]string{{"name", "n"}}
	for _, text := range names() {
		if !strings.Contains(text, "\r\n") { // Go's reader makes a line end of it
			records = append(records, []string{text, "-5"})
		}
	}
	back, err := csv.NewReader(strings.NewReader(
		printed(t, Printer{Format: "csv"}, answer{records: records}))).ReadAll()
	if err != nil || !reflect.DeepEqual(back, records) {
		t.Errorf("%v, %q", err, back)
	}
}

// Rows have a column for each field that is no object, also without rows, and of structs within.
func TestRowsAreTheFields(t *testing.T) {
	type inner struct {
		Used *int64 `json:"used"`
	}
	type item struct {
		SchemaVersion int       `json:"schema_version"`
		Name          string    `json:"name,omitempty"`
		At            time.Time `json:"at"`
		Of            []string  `json:"of"`
		Within        inner     `json:"within"`
		Hidden        string    `json:"-"`
		*inner
	}
	rows := Rows([]item{{Name: "\xff", At: time.Unix(0, 0).UTC(), Of: []string{"a", "b"}},
		{inner: &inner{new(int64(7))}}})
	want := [][]string{{"name", "at", "of", "used"}, {"\xff", "1970-01-01T00:00:00Z", "a,b", ""},
		{"", "0001-01-01T00:00:00Z", "", "7"}}
	if !reflect.DeepEqual(rows, want) || !reflect.DeepEqual(Rows([]item{}), want[:1]) {
		t.Errorf("%q", rows)
	}
}
