package main

import (
	"encoding/json"
	"strings"
)

// A section is what the search finds: a heading with the text below it.
type section struct {
	id, title string // empty for what stands before the first heading
	text      []string
	words     string // of a comment, with a blank between
}

// An indexed section is an entry of the index. Its names are short, since the index has thousands.
type indexed struct {
	Page  string `json:"p"`
	Title string `json:"h"`
	URL   string `json:"u"`
	Group string `json:"g"`
	Text  string `json:"t"`
	Words string `json:"w,omitempty"`
}

// index is the script with all that can be found. A script works without a server, where a page may not read files.
func (s *site) index() ([]byte, error) {
	var all []indexed
	for _, p := range s.order {
		for _, part := range p.sections {
			url := p.url
			if part.id != "" {
				url += "#" + part.id
			}
			text := strings.Join(strings.Fields(strings.Join(part.text, " ")), " ")
			all = append(all, indexed{Page: p.Title, Title: part.title, URL: url, Group: p.group.Title, Text: text, Words: part.words})
		}
	}
	text, err := json.Marshal(all)
	return append(append([]byte("window.found("), text...), ");\n"...), err
}
