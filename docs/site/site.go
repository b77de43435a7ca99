package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// contents is the page with the table of contents, commandsPath the one that has all commands and is divided.
const (
	contents     = "docs/README.md"
	commandsPath = "docs/commands.md"
)

// A site is all pages, and what they refer to.
type site struct {
	root string
	// pages are the pages by the place that a link in the repository names: a path, or for a command a path with a fragment.
	pages map[string]*page
	order []*page // in which they are read
	nav   []*group
	files map[string]string // other files of the repository that pages refer to, and where they are in the site
	dead  []string          // links that lead nowhere
}

// A group is a heading of the table of contents with its entries.
type group struct {
	Title   string
	Entries []*entry
}

// An entry of the navigation is a page, or a section of one.
type entry struct {
	Title, About string
	target       string // in the repository, with a fragment for a section
	page         *page
	Children     []*entry
}

// A page is a Markdown file of the repository, or a section of commandsPath.
type page struct {
	path     string // of the file
	url      string // in the site
	Title    string
	source   []byte
	document ast.Node
	headings []*heading
	sections []section
	group    *group
	above    *entry // the entry that has the page as a child, or nil
}

// A heading is part of a page's table of contents.
type heading struct {
	Level    int
	ID, Text string
}

// load reads the pages of a repository.
func load(root string) (*site, error) {
	s := &site{root: root, pages: map[string]*page{}, files: map[string]string{}}
	paths, err := markdownFiles(root)
	if err != nil {
		return nil, err
	}
	for _, file := range paths {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if file == commandsPath {
			var commands [][]byte
			text, commands = divide(text)
			for _, command := range commands {
				s.add(newCommand(command))
			}
		}
		s.add(&page{path: file, url: urlOf(file), source: text}, file)
	}
	if err := s.navigate(); err != nil {
		return nil, err
	}
	return s, nil
}

// add parses a page and makes it known under its place.
func (s *site) add(p *page, place string) {
	s.parse(p)
	s.pages[place] = p
}

// markdownFiles returns the Markdown files at the root and below docs.
func markdownFiles(root string) (paths []string, err error) {
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, err
	}
	for _, file := range top {
		paths = append(paths, filepath.Base(file))
	}
	err = fs.WalkDir(os.DirFS(root), "docs", func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(file, ".md") {
			paths = append(paths, file)
		}
		return err
	})
	return paths, err
}

// urlOf is where a file becomes a page of the site: README.md of the repository is the first one.
func urlOf(file string) string {
	switch inner, isDocs := strings.CutPrefix(file, "docs/"); {
	case file == "README.md":
		return "index.html"
	case file == contents:
		return "contents.html"
	case isDocs && path.Base(inner) == "README.md":
		return path.Dir(inner) + "/index.html"
	case isDocs:
		return strings.TrimSuffix(inner, ".md") + ".html"
	}
	return "repository/" + strings.ToLower(strings.TrimSuffix(file, ".md")) + ".html" // SECURITY.md is not docs/security.md
}

// divide takes the commands out of the reference. Each begins with its heading.
func divide(text []byte) (rest []byte, commands [][]byte) {
	parts := bytes.Split(text, []byte("\n## "))
	rest = parts[0]
	for _, part := range parts[1:] {
		if bytes.HasPrefix(part, []byte("limitctl ")) {
			commands = append(commands, slices.Concat([]byte("# "), bytes.ReplaceAll(part, []byte("\n### "), []byte("\n## "))))
		} else {
			rest = slices.Concat(rest, []byte("\n## "), part)
		}
	}
	return rest, commands
}

// newCommand is the page of a command and its place.
func newCommand(text []byte) (*page, string) {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	name := strings.TrimPrefix(string(first), "# ")
	file := strings.ReplaceAll(strings.TrimPrefix(name, "limitctl "), " ", "-")
	return &page{path: commandsPath, url: "commands/" + file + ".html", source: text}, commandsPath + "#" + githubID(name)
}

// navigate reads the table of contents.
func (s *site) navigate() error {
	p := s.pages[contents]
	if p == nil {
		return fmt.Errorf("there is no %s, which is the table of contents", contents)
	}
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		switch node := node.(type) {
		case *ast.Heading:
			if node.Level == 2 {
				s.nav = append(s.nav, &group{Title: plain(node, p.source)})
			}
		case *ast.List:
			if len(s.nav) == 0 {
				continue // before the first heading
			}
			g := s.nav[len(s.nav)-1]
			for item := node.FirstChild(); item != nil; item = item.NextSibling() {
				e, err := s.entryOf(item, p)
				if err != nil {
					return err
				}
				g.Entries = append(g.Entries, e)
				s.take(e, g)
			}
		}
	}
	s.pages[contents].group = s.nav[0]
	s.order = slices.Insert(s.order, 1, s.pages[contents])
	for _, g := range s.nav {
		for _, e := range g.Entries {
			s.takeChildren(e, g)
		}
	}
	var missing []string
	for place, p := range s.pages {
		if p.group == nil {
			missing = append(missing, place)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("%s does not lead to %s; add it to a list", contents, strings.Join(missing, ", "))
	}
	return nil
}

// entryOf reads an item of the table of contents: a link, and behind a colon what it leads to.
func (s *site) entryOf(item ast.Node, p *page) (*entry, error) {
	e := &entry{}
	text := plain(item, p.source)
	ast.Walk(item, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, is := node.(*ast.Link); is && entering && e.Title == "" {
			e.Title = plain(link, p.source)
			e.target = place(p.path, string(link.Destination))
		}
		return ast.WalkContinue, nil
	})
	rest, found := strings.CutPrefix(text, e.Title+": ")
	if e.Title == "" || !found {
		return nil, fmt.Errorf("%s: the item %q is not a link, a colon and what the page has", contents, text)
	}
	e.About = rest
	file, _, _ := strings.Cut(e.target, "#")
	if e.page = s.pages[file]; e.page == nil {
		return nil, fmt.Errorf("%s leads to %s, which is no page", contents, file)
	}
	return e, nil
}

// take puts an entry's page into the order of reading, unless the entry is a section of it.
func (s *site) take(e *entry, g *group) {
	if e.page.group == nil && !strings.Contains(e.target, "#") {
		e.page.group = g
		s.order = append(s.order, e.page)
	}
}

// takeChildren finds the pages that only another page leads to: the commands, and the pages in the folder of a README.
func (s *site) takeChildren(e *entry, g *group) {
	if strings.Contains(e.target, "#") || e.page.path == "README.md" {
		return
	}
	at := slices.Index(s.order, e.page) + 1
	for _, link := range links(e.page) {
		target := place(e.page.path, link)
		child := s.pages[target]
		if child == nil || child.group != nil {
			continue
		}
		below := path.Base(e.page.path) == "README.md" && strings.HasPrefix(child.path, path.Dir(e.page.path)+"/")
		if !below && !(e.page.path == commandsPath && child.path == commandsPath) {
			continue
		}
		child.group, child.above = g, e
		e.Children = append(e.Children, &entry{Title: strings.TrimPrefix(child.Title, "limitctl "), target: target, page: child})
		s.order = slices.Insert(s.order, at, child)
		at++
	}
}

// links are the destinations of a page's links in their order.
func links(p *page) (all []string) {
	ast.Walk(p.document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, is := node.(*ast.Link); is && entering {
			all = append(all, string(link.Destination))
		}
		return ast.WalkContinue, nil
	})
	return all
}

// place is the place in the repository that a link in a file leads to.
func place(file, link string) string {
	target, fragment, has := strings.Cut(link, "#")
	if target = path.Join(path.Dir(file), target); strings.HasPrefix(link, "#") {
		target = file
	}
	if has {
		return target + "#" + fragment
	}
	return target
}
