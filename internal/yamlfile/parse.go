package yamlfile

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/texts"
)

// Parse reads a file's YAML; path is its name in mistakes, and holds says what an empty file lacks,
// such as "policies or a prefix". The root is not ok if nothing can be read, which is a
// mistake.
func Parse(path string, data []byte, holds string) (r *Reader, root Value, ok bool) {
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	r = &Reader{path: path, lines: strings.Split(text, "\n"), secrets: redact.New(), noted: map[Mistake]bool{},
		aliases: map[*ast.AliasNode]ast.Node{}, places: map[string]*token.Token{}, bad: map[string]bool{}}
	if len(data) > MaxSize {
		r.lines = []string{""}
		r.at(1, 1, "the file has %d bytes; at most %d are read", len(data), MaxSize)
		return r, Value{}, false
	}
	if !r.checkText() {
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
		if l.aliases[n] = l.anchors[n.Value.GetToken().Value]; l.aliases[n] != nil {
			return nil
		}
		l.mistake("", n.GetToken(), "there is no such anchor before the alias; quote a text that begins with *")
		return nil
	}
	return l
}
