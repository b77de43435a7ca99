package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// A view is what the template makes a page of.
type view struct {
	Title, URL, Root string // Root leads from the page to the first one
	Body             template.HTML
	Nav              []*viewGroup
	Headings         []*heading
	Previous, Next   *viewLink
	Group            string
	Source           string // where the page is edited; empty for none
	Home             bool
	File             string // set for the page of a file
}

type viewGroup struct {
	Title string
	Open  bool
	Links []*viewLink
}

type viewLink struct {
	Title, About, URL string
	Here, Open        bool
	Children          []*viewLink
}

// write writes the site. A link that leads nowhere is an error, and the site is written nevertheless.
func (s *site) write(to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	layout, err := template.ParseFS(assets, "assets/page.gohtml")
	if err != nil {
		return err
	}
	for i, p := range s.order {
		body, err := s.render(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		v := s.view(p.url, p)
		v.Title, v.Body, v.Group, v.Home = p.Title, template.HTML(body), p.group.Title, p.url == "index.html"
		v.Source = forge + "/blob/main/" + p.path
		if len(p.headings) > 1 {
			v.Headings = p.headings
		}
		if i > 0 {
			v.Previous = &viewLink{Title: s.order[i-1].Title, URL: relative(p.url, s.order[i-1].url)}
		}
		if i+1 < len(s.order) {
			v.Next = &viewLink{Title: s.order[i+1].Title, URL: relative(p.url, s.order[i+1].url)}
		}
		if err := writePage(layout, to, p.url, v); err != nil {
			return err
		}
	}
	if err := s.writeFiles(layout, to); err != nil {
		return err
	}
	index, err := s.index()
	if err != nil {
		return err
	}
	if err := writeFile(to, "search-index.js", index); err != nil {
		return err
	}
	for _, name := range []string{"site.css", "site.js", "icon.svg"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		if err := writeFile(to, name, text); err != nil {
			return err
		}
	}
	if len(s.dead) > 0 {
		slices.Sort(s.dead)
		return errors.New("dead links:\n" + strings.Join(slices.Compact(s.dead), "\n"))
	}
	return nil
}

// writeFiles writes the files that pages refer to: pictures as they are, texts as pages.
func (s *site) writeFiles(layout *template.Template, to string) error {
	for file, url := range s.files {
		text, err := os.ReadFile(filepath.Join(s.root, file))
		if err != nil {
			return err
		}
		if isPicture(file) {
			if err := writeFile(to, url, text); err != nil {
				return err
			}
			continue
		}
		var body bytes.Buffer
		writeCode(&body, languageOf(file), string(text))
		v := s.view(url, nil)
		v.Title, v.File, v.Body, v.Source = file, file, template.HTML(body.String()), forge+"/blob/main/"+file
		if err := writePage(layout, to, url, v); err != nil {
			return err
		}
	}
	return nil
}

func languageOf(file string) string {
	switch ending := strings.TrimPrefix(filepath.Ext(file), "."); ending {
	case "yml":
		return "yaml"
	case "":
		return "sh"
	default:
		return ending
	}
}

// view is what all pages share, seen from one of them.
func (s *site) view(url string, here *page) *view {
	v := &view{URL: url, Root: strings.Repeat("../", strings.Count(url, "/"))}
	for _, g := range s.nav {
		group := &viewGroup{Title: g.Title}
		for _, e := range g.Entries {
			link := s.viewLink(url, e, here)
			group.Open = group.Open || link.Open
			group.Links = append(group.Links, link)
		}
		v.Nav = append(v.Nav, group)
	}
	return v
}

func (s *site) viewLink(url string, e *entry, here *page) *viewLink {
	_, fragment, isSection := strings.Cut(e.target, "#")
	if isSection && e.page.path+"#"+fragment == e.target && s.pages[e.target] == nil {
		fragment = "#" + fragment
	} else {
		fragment, isSection = "", false
	}
	link := &viewLink{Title: e.Title, About: e.About, URL: relative(url, e.page.url) + fragment, Here: e.page == here && !isSection}
	link.Open = link.Here
	for _, child := range e.Children {
		below := s.viewLink(url, child, here)
		link.Open = link.Open || below.Open
		link.Children = append(link.Children, below)
	}
	return link
}

func writePage(layout *template.Template, to, url string, v *view) error {
	var b bytes.Buffer
	if err := layout.Execute(&b, v); err != nil {
		return err
	}
	return writeFile(to, url, b.Bytes())
}

func writeFile(to, name string, text []byte) error {
	file := filepath.Join(to, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
