package output

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/tier"
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
	p := Printer{Format: "csv"}
	back, err := csv.NewReader(strings.NewReader(printed(t, p, answer{records: records}))).ReadAll()
	if err != nil || !reflect.DeepEqual(back, records) {
		t.Errorf("as they are: %v, %q", err, back)
	}
	p.Formulas = "escape"
	back, err = csv.NewReader(strings.NewReader(printed(t, p, answer{records: records}))).ReadAll()
	if err != nil || len(back) != len(records) {
		t.Fatalf("escaped: %v, %d rows", err, len(back))
	}
	for i, row := range back {
		if strings.IndexAny(row[0], "=+-@\t\r\n") == 0 && !isNumber(row[0]) {
			t.Errorf("%q is written as %q, a formula", records[i][0], row[0])
		}
		if got := unescapeFormula(row[0]); got != records[i][0] {
			t.Errorf("%q is written as %q, which says %q", records[i][0], row[0], got)
		}
		if row[1] != records[i][1] {
			t.Errorf("the number became %q", row[1])
		}
	}
}

// unescapeFormula removes one ' at each possible place, as in the docs.
func unescapeFormula(cell string) string {
	var b strings.Builder
	begin := true
	for i := range len(cell) {
		if begin && cell[i] == '\'' {
			begin = false
			continue
		}
		begin = strings.IndexByte(",;|\t\r\n", cell[i]) >= 0
		b.WriteByte(cell[i])
	}
	return b.String()
}

func TestFormulas(t *testing.T) {
	for cell, want := range map[string]string{
		"": "", "user:42": "user:42", "a-b": "a-b", "-5": "-5", "-1.5e-7": "-1.5e-7", "=1": "'=1", "+5": "'+5", "@x": "'@x", "-x": "'-x",
		" =1": "' =1", "\u200b=1": "'\u200b=1", "\t=1": "'\t'=1", "\rx": "'\rx", "'": "''", "'x": "''x", "＝1": "'＝1", "a;=1": "a;'=1",
		"a, -b": "a,' -b",
		"-":     "'-", "--1": "'--1", "-1-1": "'-1-1", "-.5": "'-.5", "=": "'=",
	} {
		if got := escapeFormula(cell); got != want {
			t.Errorf("%q becomes %q, want %q", cell, got, want)
		}
	}
	var b bytes.Buffer
	p := Printer{Data: &b, Format: "csv"}
	if err := p.Answer(answer{records: [][]string{{"=1", "-5", "'x", "ok"}, {" @x", "", "-",
		"user"}}}); err != nil || p.FormulaCells() != 3 {
		t.Errorf("%v, and %d cells are formulas, want 3", err, p.FormulaCells())
	}
}

// documents are documents that YAML must preserve.
func documents() []any {
	keys := map[string]any{}
	for i, text := range names() {
		keys[text] = i
	}
	return []any{names(), keys, map[string]any{}, []any{}, "text", nil, true,
		map[string]any{"a": []any{}, "b": map[string]any{}, "c": []any{[]any{}, []any{"x", []any{"y", map[string]any{"z": []any{1}}}}},
			"d": nil},
		[]any{map[string]any{"a": 1, "b": []any{map[string]any{"c": "d"}}}, []any{[]any{map[string]any{"e": "f"}}}},
		[]any{0, -1, 1.5, 1e21, 1e-7, -2.5e-300, 1 << 53}, map[string]any{strings.Repeat("long", 500): map[string]any{"a": "b"},
			strings.Repeat("k", 3000): []any{1}}}
}

// plainYAML is a document from the parser of YAML 1.2, with numbers as floats.
func plainYAML(t *testing.T, text string) any {
	t.Helper()
	var back any
	if err := yaml.UnmarshalWithOptions([]byte(text), &back, yaml.Strict()); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return throughJSON(t, back)
}

func throughJSON(t *testing.T, value any) (back any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func TestYAMLParsesBack(t *testing.T) {
	for _, document := range documents() {
		text := printed(t, Printer{Format: "yaml"}, answer{document: document})
		if at := obeyed(text, false); at != "" {
			t.Errorf("it has %s", at)
		}
		if got, want := plainYAML(t, text), throughJSON(t, document); !reflect.DeepEqual(got, want) {
			t.Errorf("%v became %v:\n%s", want, got, text)
		}
	}
}

// PyYAML is a parser of YAML 1.1, where more words are not strings.
func TestYAMLParsesBackInPython(t *testing.T) {
	tier.Full(t, "Python with PyYAML")
	var texts, wants []any
	for _, document := range documents() {
		texts, wants = append(texts, printed(t, Printer{Format: "yaml"}, answer{document: document})), append(wants, throughJSON(t,
			document))
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	name := "python3"
	if exec.Command(name, "-c", "import yaml").Run() != nil {
		name = "/usr/bin/python3" // the system's, which has PyYAML; the first in PATH can be a virtual environment
	}
	python := exec.Command(name, "-c",
		"import json, sys, yaml; print(json.dumps([yaml.safe_load(text) for text in json.load(sys.stdin)]))")
	python.Stdin = bytes.NewReader(in)
	var problems bytes.Buffer
	python.Stderr = &problems
	out, err := python.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &problems)
	}
	var got []any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for i, want := range wants {
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("%v became %v:\n%s", want, got[i], texts[i])
		}
	}
}

func TestYAMLIsReadable(t *testing.T) {
	document := struct {
		Version int              `json:"schema_version"`
		Keys    []map[string]any `json:"keys"`
		None    []string         `json:"none"`
		Text    string           `json:"text"`
	}{1, []map[string]any{{"key": "user:42", "used": 3}, {"key": "no", "used": -0.5}}, []string{}, "3 of 5\n"}
	want := `schema_version: 1
keys:
- key: user:42
  used: 3
- key: "no"
  used: -0.5
none: []
text: "3 of 5\x0A"
`
	if got := printed(t, Printer{Format: "yaml"}, answer{document: document}); got != want {
		t.Errorf("%s", got)
	}
}

func FuzzYAML(f *testing.F) {
	for _, text := range names() {
		f.Add(text, 1.5)
	}
	f.Fuzz(func(t *testing.T, text string, number float64) {
		if !utf8.ValidString(text) || number != number || number-number != 0 {
			t.Skip()
		}
		document := map[string]any{"a": text, "b": []any{text, number, []any{text}}, "c": map[string]any{text: text, "x" + text: number}}
		written, err := yamlOf(document)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := plainYAML(t, string(written)), throughJSON(t, document); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q:\n%s", want, got, written)
		}
	})
}

func FuzzCSV(f *testing.F) {
	for _, text := range hostiletext.Texts() {
		f.Add(text, "-5")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		want := []string{first, second, "end"}
		for _, formulas := range []Formulas{"keep", "escape"} {
			var b bytes.Buffer
			p := Printer{Formulas: formulas}
			w := p.newCSV(&b)
			if err := w.write(want); err != nil {
				t.Fatal(err)
			}
			w.Flush()
			got, err := csv.NewReader(&b).Read()
			if err != nil || len(got) != len(want) {
				t.Fatalf("%q: %q, %v", want, got, err)
			}
			for i, cell := range got {
				if formulas == "escape" {
					if begin := formulaBegin(cell); begin != 0 && begin != '\'' && !isNumber(cell) {
						t.Fatalf("%q is written as %q", want[i], cell)
					}
					cell = unescapeFormula(cell)
				}
				if cell != strings.ReplaceAll(want[i], "\r\n", "\n") && cell != want[i] {
					t.Fatalf("%s: %q came back as %q", formulas, want[i], cell)
				}
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, text := range hostiletext.Texts() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		written, err := JSON(map[string]string{"a": text})
		if err != nil || obeyed(string(written), false) != "" {
			t.Fatalf("%s, %v", written, err)
		}
		var back map[string]string
		if err := json.Unmarshal(written, &back); err != nil || back["a"] != strings.ToValidUTF8(text, "\ufffd") && utf8.ValidString(text) {
			t.Fatalf("%q came back as %q, %v", text, back, err)
		}
	})
}
