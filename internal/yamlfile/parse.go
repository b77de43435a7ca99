package yamlfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/texts"
)

// MaxSize is the most bytes of a file.
const MaxSize = 1 << 20

// maxEntries bounds the entries of a file, with its aliases expanded: aliases multiply their anchors.
const maxEntries = 100_000

// Parse reads a file's YAML; path is its name in mistakes, and holds says what an empty file lacks, such as "policies
// or a prefix". The root is not ok if nothing can be read, which is a mistake.
func Parse(path string, data []byte, holds string) (r *Reader, root Value, ok bool) {
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	r = &Reader{path: path, lines: strings.Split(text, "\n"), secrets: redact.New(), noted: map[Mistake]bool{},
		aliases: map[*ast.AliasNode]ast.Node{}, places: map[string]place{}, bad: map[string]bool{},
		above: map[string]bool{}}
	if len(data) > MaxSize {
		r.lines = []string{""}
		r.at(1, 1, "the file has %d bytes; at most %d are read", len(data), MaxSize)
		return r, Value{}, false
	}
	if !r.check() {
		return r, Value{}, false
	}
	// Report duplicate keys ourselves, since the parser would stop at the first.
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return r, Value{}, false
	}
	var body ast.Node
	for _, document := range file.Docs {
		switch {
		case document.Body == nil || document.Body.Type() == ast.DirectiveType:
		case body != nil:
			r.mistake("", firstToken(document.Body), "a second document begins here; only one is allowed")
		default:
			body = document.Body
		}
	}
	if body == nil || body.Type() == ast.NullType {
		r.at(1, 1, "the file is empty; write %s", holds)
		return r, Value{}, false
	}
	ast.Walk(links{r, map[string]ast.Node{}}, body)
	return r, Value{key: firstToken(body), node: body}, true
}

// check checks the lines for what no YAML text may contain, and for what no configuration comes near: the parser's time
// is quadratic in the values of a map, in documents and in the nesting.
func (r *Reader) check() bool {
	const deepest = 500
	brackets, marks := 0, 0
	var siblings [deepest + 2]int // lines by indentation, since the last line with a smaller one
	for i, line := range r.lines {
		valid, rest := utf8.ValidString(line), strings.TrimLeft(line, " \t")
		level := min(len(line)-len(rest), deepest)
		if siblings[level]++; rest != "" && rest[0] != '#' {
			clear(siblings[level+1:])
		}
		nesting := 0 // by the indicators of levels on this line
		for word := range strings.FieldsFuncSeq(line, func(c rune) bool { return strings.ContainsRune(" \t[{,", c) }) {
			if word == "-" || word == "?" || word == ":" {
				nesting++
			}
		}
		for at, c := range line {
			wrong := ""
			switch {
			case c == utf8.RuneError && !valid:
				wrong = "this byte is not UTF-8; save the file as UTF-8"
			case unicode.IsControl(c) && c != '\t' && c != '\u0085' || c == '\ufeff':
				wrong = fmt.Sprintf("the invisible character %U is not allowed here; remove it", c)
			case c == '[' || c == '{':
				brackets++
				nesting = max(nesting, brackets)
			case c == ']' || c == '}':
				brackets = max(0, brackets-1)
			}
			if wrong != "" {
				r.at(i+1, utf8.RuneCountInString(line[:at])+1, "%s", wrong)
				return false
			}
			if strings.ContainsRune(`[]{},:"'`, c) {
				marks++
			}
		}
		for _, bound := range []struct {
			is, most int
			text     string
		}{
			{i + 1, 20_000, "the file has more than %d lines"},
			{len(line), 64 << 10, "the line has more than %d bytes; split it"},
			{siblings[level], 10_000, "this list or map has more than %d lines"},
			{nesting, 100, "lists and maps are nested more than %d deep here"},
			{marks, 100_000, "the file has more than %d brackets, commas, colons and quotes"},
		} {
			if bound.is > bound.most {
				r.at(i+1, 1, bound.text, bound.most)
				return false
			}
		}
	}
	return true
}

// syntax notes an error of the parser, without the parts of the file that it repeats: each can be a password.
func (r *Reader) syntax(err error) {
	var known yaml.Error
	if !errors.As(err, &known) || known.GetToken() == nil {
		r.at(1, 1, "the file cannot be read as YAML")
		return
	}
	text := quoted().ReplaceAllString(known.GetMessage(), masked)
	switch {
	case strings.Contains(text, "'\t'"), strings.Contains(text, "tab character"):
		text = "the line is indented with a tab; use spaces"
	case strings.HasPrefix(text, "mapping value is not"):
		text += `; quote a text that contains ": "`
	case strings.HasPrefix(text, "value is not"), strings.HasPrefix(text, "non-map value"):
		text += "; is the line indented like those around it?"
	}
	r.mistake("", known.GetToken(), "%s", text)
}

var quoted = texts.Regexp(`(?s)".*"`)

// links finds the anchor of each alias: the last one before it with its name, so that none contains itself.
type links struct {
	*Reader
	anchors map[string]ast.Node
}

// Visit implements [ast.Visitor].
func (l links) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.TagNode:
		l.mistake("", n.GetToken(), "a tag is not used here; remove it, or quote a text that begins with !")
	case *ast.AnchorNode:
		ast.Walk(l, n.Value)
		l.anchors[n.Name.GetToken().Value] = n.Value
		return nil
	case *ast.AliasNode:
		if l.aliases[n] = l.anchors[n.Value.GetToken().Value]; l.aliases[n] == nil {
			l.mistake("", n.GetToken(), "there is no such anchor before the alias; quote a text that begins with *")
		}
		return nil
	}
	return l
}
