package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// forge is where folders and source code are that the site does not have.
const forge = "https://github.com/limitctl/limitctl"

// resolve returns what a link of a page is in the site, relative to the page. A link that leads nowhere is noted.
func (s *site) resolve(p *page, link string) string {
	if strings.Contains(link, ":") {
		return link // of the web
	}
	target := place(p.path, link)
	file, fragment, has := strings.Cut(target, "#")
	to := s.pages[target] // a command
	if to != nil {
		fragment, has = "", false
	} else if to = s.pages[file]; to == nil {
		to = s.pages[file+"/README.md"]
	}
	if to == nil {
		return relative(p.url, s.fileURL(p, link, file))
	}
	if has && !slices.ContainsFunc(to.headings, func(h *heading) bool { return h.ID == fragment }) {
		s.dead = append(s.dead, fmt.Sprintf("%s links to %s, which has no heading #%s", p.path, file, fragment))
	}
	if has && to == p {
		return "#" + fragment
	} else if has {
		fragment = "#" + fragment
	}
	return relative(p.url, to.url) + fragment
}

// fileURL is where a file of the repository is that is no page: a picture, a text that gets a page of its own, or a folder,
// which only the forge has.
func (s *site) fileURL(p *page, link, file string) string {
	info, err := os.Stat(filepath.Join(s.root, file))
	switch {
	case err != nil || strings.HasPrefix(file, "../"):
		s.dead = append(s.dead, fmt.Sprintf("%s links to %s, which is not there", p.path, link))
		return file
	case info.IsDir():
		return forge + "/tree/main/" + file
	case isPicture(file):
		s.files[file] = "files/" + file
	default:
		s.files[file] = "files/" + file + ".html"
	}
	return s.files[file]
}

func isPicture(file string) bool {
	return slices.Contains([]string{".png", ".svg", ".gif"}, path.Ext(file))
}

// relative is the way from one place of the site to another.
func relative(from, to string) string {
	if strings.Contains(to, ":") {
		return to
	}
	way, err := filepath.Rel(path.Dir(from), to)
	if err != nil {
		return to
	}
	return filepath.ToSlash(way)
}
