package config

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/limitctl/limitctl/internal/redact"
)

// parse reads a file's YAML. root is not ok if there is nothing to be read.
func parse(path string, data []byte, checkStore func(url string) error) (t *tree, root place, ok bool) {
	text := strings.TrimPrefix(strings.ReplaceAll(string(data), "\r\n", "\n"), "\ufeff")
	t = &tree{path: path, checkStore: checkStore, lines: strings.Split(text, "\n"), aliases: map[*ast.AliasNode]ast.Node{},
		noted: map[Mistake]bool{}, places: map[string]*token.Token{}, bad: map[string]bool{}, secrets: redact.New()}
	if len(data) > maxSize {
		t.lines = []string{""}
		t.at(1, 1, "the file has %d bytes; at most %d are read", len(data), maxSize)
		return t, place{}, false
	}
	if !t.checkText(text) {
		return t, place{}, false
	}
	// Keys that are there twice are ours to report, so as not to stop at the first.
	file, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		t.syntax(err)
		return t, place{}, false
	}
	var body ast.Node
	for _, document := range file.Docs {
		switch {
		case document.Body == nil || document.Body.Type() == ast.DirectiveType:
		case body != nil:
			t.mistake("", firstToken(document.Body), "a second document begins here; a configuration is one document")
		default:
			body = document.Body
		}
	}
	if body == nil || body.Type() == ast.NullType {
		t.at(1, 1, "the file is empty; it holds policies, contexts or a prefix")
		return t, place{}, false
	}
	t.link(body, map[string]ast.Node{}, map[string]bool{})
	return t, place{key: firstToken(body), node: body}, true
}

// syntax notes what the parser could not read.
func (t *tree) syntax(err error) {
	var known yaml.Error
	if !errors.As(err, &known) || known.GetToken() == nil {
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		t.at(1, 1, "the file cannot be read as YAML: %s", text)
		return
	}
	// It may repeat what is there, such as a tag, and that can be a password.
	text := quotedText.ReplaceAllStringFunc(known.GetMessage(), func(quoted string) string {
		if plain, err := strconv.Unquote(quoted); err == nil {
			return t.quote(plain, known.GetToken())
		}
		return masked
	})
	switch {
	case strings.Contains(text, `'	'`), strings.Contains(text, "tab character"):
		text = "a tab cannot indent here; use spaces"
	case strings.HasPrefix(text, "value is not allowed"):
		text = "a value does not belong here; is the line indented as those around it?"
	case strings.HasPrefix(text, "mapping value is not allowed"):
		text = `a second "key: value" on a line, or a line indented too far; quote a text that holds ": "`
	}
	t.mistake("", known.GetToken(), "%s", text)
}

var quotedText = regexp.MustCompile(`(?s)".*"`)

// link finds what each alias stands for: the anchor of its name that was last
// before it. An anchor that is not at its end yet would hold itself.
func (t *tree) link(n ast.Node, anchors map[string]ast.Node, open map[string]bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, value := range n.Values {
			t.link(value, anchors, open)
		}
	case *ast.MappingValueNode:
		t.link(n.Key, anchors, open)
		t.link(n.Value, anchors, open)
	case *ast.MappingKeyNode:
		t.link(n.Value, anchors, open)
	case *ast.SequenceNode:
		for _, value := range n.Values {
			t.link(value, anchors, open)
		}
	case *ast.TagNode:
		tag := "the tag "
		if t.shows(n.GetToken().Value, n.GetToken()) {
			tag += n.GetToken().Value + " "
		}
		t.mistake("", n.GetToken(), "%sis of no use here; leave it out", tag)
		t.link(n.Value, anchors, open)
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		open[name] = true
		t.link(n.Value, anchors, open)
		delete(open, name)
		anchors[name] = n.Value
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target, known := anchors[name]
		switch {
		case (open[name] || !known) && !t.shows(name, n.GetToken()):
			t.mistake("", n.GetToken(), "no such anchor stands before the alias; quote a text that begins with *")
		case open[name]:
			t.mistake("", n.GetToken(), "the alias *%s is inside of its own anchor &%s", name, name)
		case !known:
			t.mistake("", n.GetToken(), "no anchor &%s stands before the alias *%s", name, name)
		default:
			t.aliases[n] = target
		}
	}
}
