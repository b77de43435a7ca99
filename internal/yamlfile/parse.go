package yamlfile

import (
	"errors"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/texts"
)

// Options say how to read a file.
type Options struct {
	// Holds says what an empty file lacks, such as "policies or a prefix".
	Holds string
	// Mask returns the lines for excerpts, with something of the same width in place of each secret character. nil is for
	// files without secrets.
	Mask func(lines []string) []string
}

// Parse reads a file's YAML; path is its name in mistakes. The root is not ok if nothing can be read, which is a
// mistake.
func Parse(path string, data []byte, options Options) (r *Reader, root Value, ok bool) {
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	r = &Reader{path: path, lines: strings.Split(text, "\n"), mask: options.Mask, secrets: redact.New(), noted: map[Mistake]bool{},
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
		r.at(1, 1, "the file is empty; write %s", options.Holds)
		return r, Value{}, false
	}
	ast.Walk(links{r, map[string]ast.Node{}}, body)
	return r, Value{key: firstToken(body), node: body}, true
}

// syntax notes an error of the parser.
func (r *Reader) syntax(err error) {
	var known yaml.Error
	if !errors.As(err, &known) || known.GetToken() == nil {
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		r.at(1, 1, "the file cannot be read as YAML: %s", text)
		return
	}
	// It may repeat a part of the file, such as a tag, which can be a password.
	text := quotedText().ReplaceAllStringFunc(known.GetMessage(), func(quoted string) string {
		if plain, err := strconv.Unquote(quoted); err == nil {
			return r.quote(plain, known.GetToken())
		}
		return masked
	})
	switch {
	case strings.Contains(text, `'	'`), strings.Contains(text, "tab character"):
		text = "the line is indented with a tab; use spaces"
	case strings.HasPrefix(text, "sequence end token"):
		text = "the list that begins here has no closing ]"
	case strings.HasPrefix(text, "could not find flow mapping end token"):
		text = "the map that begins here has no closing }"
	case strings.HasPrefix(text, "could not find end character of"):
		text = "the text that begins here has no closing quote"
	case strings.HasPrefix(text, "non-map value"):
		text = `a "key: value" is expected here; is the line indented like those around it?`
	case strings.HasPrefix(text, "value is not allowed"):
		text = "no value is allowed here; is the line indented like those around it?"
	case strings.HasPrefix(text, "mapping value is not allowed"):
		text = `the line has a second "key: value", or is indented too far; quote a text that contains ": "`
	}
	r.mistake("", known.GetToken(), "%s", text)
}

var quotedText = texts.Regexp(`(?s)".*"`)

// links finds the anchor of each alias: the last one before it with its name, so that none contains itself.
type links struct {
	*Reader
	anchors map[string]ast.Node
}

// Visit implements [ast.Visitor].
func (l links) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.TagNode:
		tag := "the tag "
		if l.shows(n.GetToken().Value, n.GetToken()) {
			tag += n.GetToken().Value + " "
		}
		l.mistake("", n.GetToken(), "%sis not used here; remove it", tag)
	case *ast.AnchorNode:
		ast.Walk(l, n.Value)
		l.anchors[n.Name.GetToken().Value] = n.Value
		return nil
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if l.aliases[n] = l.anchors[name]; l.aliases[n] != nil {
			return nil
		}
		if l.shows(name, n.GetToken()) {
			l.mistake("", n.GetToken(), "there is no anchor &%s before the alias *%s", name, name)
		} else {
			l.mistake("", n.GetToken(), "there is no such anchor before the alias; quote a text that begins with *")
		}
		return nil
	}
	return l
}
