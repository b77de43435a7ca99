package main

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// render makes HTML of a page, whose links lead to the places of the site.
func (s *site) render(p *page) (string, error) {
	ast.Walk(p.document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Link:
			node.Destination = []byte(s.resolve(p, string(node.Destination)))
		case *ast.Image:
			node.Destination = []byte(s.resolve(p, string(node.Destination)))
		}
		return ast.WalkContinue, nil
	})
	var b bytes.Buffer
	resolve := func(link string) string { return s.resolve(p, link) }
	if err := markdown(resolve).Renderer().Render(&b, p.source, p.document); err != nil {
		return "", err
	}
	return strings.NewReplacer("<table", `<div class="scroll"><table`, "</table>", "</table></div>", "<img ", `<img loading="lazy" `).
		Replace(b.String()), nil
}

// blocks renders what differs from goldmark's own HTML.
type blocks struct{ resolve func(link string) string }

// RegisterFuncs implements renderer.NodeRenderer.
func (b blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, b.heading)
	r.Register(ast.KindFencedCodeBlock, b.code)
	r.Register(ast.KindCodeSpan, b.span)
	r.Register(ast.KindHTMLBlock, b.html)
}

var (
	comment   = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	attribute = regexp.MustCompile(`\b(src|srcset)="([^"]+)"`)
)

// html is HTML in a page: its links lead to the places of the site, and comments are for the tests of the pages.
func (b blocks) html(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := node.(*ast.HTMLBlock)
	text := string(block.Lines().Value(source))
	if block.HasClosure() {
		text += string(block.ClosureLine.Value(source))
	}
	text = comment.ReplaceAllString(text, "")
	w.WriteString(attribute.ReplaceAllStringFunc(text, func(found string) string {
		m := attribute.FindStringSubmatch(found)
		return fmt.Sprintf(`%s="%s"`, m[1], html.EscapeString(b.resolve(html.UnescapeString(m[2]))))
	}))
	return ast.WalkContinue, nil
}

// heading has a link to itself.
func (blocks) heading(w util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	h := node.(*ast.Heading)
	value, _ := h.AttributeString("id")
	id, _ := value.([]byte)
	if entering {
		fmt.Fprintf(w, `<h%d id="%s">`, h.Level, html.EscapeString(string(id)))
		return ast.WalkContinue, nil
	}
	if h.Level > 1 {
		fmt.Fprintf(w, ` <a class="anchor" href="#%s" aria-label="Link to this section">#</a>`, html.EscapeString(string(id)))
	}
	fmt.Fprintf(w, "</h%d>\n", h.Level)
	return ast.WalkContinue, nil
}

// unbroken is how long a word in a text may be that is not broken, for instance behind a dash.
const unbroken = 28

// span is code in a text. Its short words stay whole, and others are broken where they have a sign.
func (blocks) span(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	w.WriteString("<code>")
	for i, word := range strings.Split(plain(node, source), " ") {
		if i > 0 {
			w.WriteByte(' ')
		}
		switch text := html.EscapeString(word); {
		case len(word) > unbroken:
			w.WriteString(breaks.Replace(text))
		case strings.ContainsAny(word, "-/|?"):
			fmt.Fprintf(w, `<span class="word">%s</span>`, text)
		default:
			w.WriteString(text)
		}
	}
	w.WriteString("</code>")
	return ast.WalkSkipChildren, nil
}

// breaks says where a long word of code may go on in the next line.
var breaks = strings.NewReplacer("[", "<wbr>[", ",", ",<wbr>", "|", "|<wbr>", "/", "/<wbr>")

// code is a block with the name of its language; the script of the page adds the button that copies it.
func (blocks) code(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		block := node.(*ast.FencedCodeBlock)
		writeCode(w, string(block.Language(source)), string(block.Lines().Value(source)))
	}
	return ast.WalkSkipChildren, nil
}
