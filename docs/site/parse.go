package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown is GitHub's dialect. The pages are our own, so HTML in them is kept; resolve is for the links in it.
func markdown(resolve func(link string) string) goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(blocks{resolve}, 100))),
	)
}

// githubIDs names headings as GitHub does, so that links to them work in both places.
type githubIDs struct{ used map[string]int }

// Generate implements parser.IDs.
func (g *githubIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := githubID(string(value))
	n := g.used[id]
	g.used[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

// Put implements parser.IDs.
func (g *githubIDs) Put(value []byte) { g.used[string(value)]++ }

func githubID(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
}

// searchWords is the comment below a heading with words for what is there that other people use.
var searchWords = regexp.MustCompile(`<!-- search: (.*) -->`)

// parse reads a page: its title, its headings, and the text of its sections for the search.
func (s *site) parse(p *page) {
	context := parser.NewContext(parser.WithIDs(&githubIDs{map[string]int{}}))
	p.document = markdown(nil).Parser().Parse(text.NewReader(p.source), parser.WithContext(context))
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		h, is := node.(*ast.Heading)
		if !is {
			if len(p.sections) == 0 {
				continue
			}
			last := &p.sections[len(p.sections)-1]
			if block, is := node.(*ast.HTMLBlock); !is {
				last.text = append(last.text, plain(node, p.source))
			} else if m := searchWords.FindSubmatch(block.Lines().Value(p.source)); m != nil {
				last.words = string(m[1])
			}
			continue
		}
		title := plain(h, p.source)
		id, _ := h.AttributeString("id")
		name, _ := id.([]byte)
		if h.Level == 1 && p.Title == "" {
			p.Title = title
			p.sections = append(p.sections, section{})
			continue
		}
		p.headings = append(p.headings, &heading{h.Level, string(name), title})
		p.sections = append(p.sections, section{id: string(name), title: title})
	}
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		if table, is := node.(*extast.Table); is {
			label(table, p.source)
			above, is := table.PreviousSibling().(*ast.HTMLBlock)
			if is && bytes.Contains(above.Lines().Value(p.source), []byte("<!-- cards -->")) {
				table.SetAttributeString("class", []byte("rows cards"))
			}
		}
	}
}

// plain is the text of a node.
func plain(node ast.Node, source []byte) string {
	var b strings.Builder
	ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				value := n.Segment.Value(source)
				if n.Parent().Kind() != ast.KindCodeSpan {
					value = util.ResolveEntityNames(util.UnescapePunctuations(value))
				}
				b.Write(value)
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		case *ast.RawHTML:
			return ast.WalkSkipChildren, nil
		default:
			if !entering && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// wide is how long the text of a cell may be in a table that stays one on a narrow screen.
const wide = 34

// label gives each cell of a table the heading of its column, so that a narrow screen can show the rows one under the
// other. A table whose cells are all short stays a table.
func label(table *extast.Table, source []byte) {
	var columns []string
	long := false
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		i := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			value := plain(cell, source)
			if row.Kind() == extast.KindTableHeader {
				columns = append(columns, value)
			} else if i < len(columns) && columns[i] != "" && i > 0 {
				cell.SetAttributeString("data-label", []byte(columns[i]))
			}
			long = long || len([]rune(value)) > wide
			i++
		}
	}
	switch {
	case len(columns) > 0 && columns[0] == "flag":
		table.SetAttributeString("class", []byte("rows flags"))
	case long:
		table.SetAttributeString("class", []byte("rows"))
	}
}
