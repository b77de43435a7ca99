package main

import (
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
)

// A rule colours what its expression matches: the class of the text.
type rule struct {
	class string
	match string
}

// languages are the rules of each language, in the order in which they are tried at a place. It is colour and not grammar: a
// reader sees at a glance what is typed, what is a comment and what is a key.
var languages = map[string]*regexp.Regexp{}

var classes = map[string][]string{}

func init() {
	for name, rules := range map[string][]rule{
		"sh": {
			{"comment", `(?m)(?:^|[ \t])#.*$`}, {"string", `'[^'\n]*'|"(?:[^"\\\n]|\\.)*"`}, {"flag", `(?m)(?:^|[ \t(])--?[a-z][\w-]*`},
			{"name", `\$\{?\w+\}?`},
		},
		"yaml": {
			{"comment", `(?m)(?:^|[ \t])#.*$`}, {"key", `(?m)[\w$./-]+:(?: |$)`}, {"string", `'[^'\n]*'|"(?:[^"\\\n]|\\.)*"`},
		},
		"json": {
			{"key", `"(?:[^"\\\n]|\\.)*"\s*:`}, {"string", `"(?:[^"\\\n]|\\.)*"`},
		},
		"go": {
			{"comment", `//[^\n]*`}, {"string", "\"(?:[^\"\\\\\\n]|\\\\.)*\"|`[^`]*`"},
			{"key", `\b(?:break|case|const|continue|default|defer|else|for|func|go|if|import|interface|map|package|range)\b|` +
				`\b(?:return|select|struct|switch|type|var)\b`},
		},
	} {
		var parts []string
		for _, r := range rules {
			parts = append(parts, "("+r.match+")")
			classes[name] = append(classes[name], r.class)
		}
		languages[name] = regexp.MustCompile(strings.Join(parts, "|"))
	}
}

// called is how readers know a language that the pages call otherwise.
var called = map[string]string{"console": "shell", "sh": "shell", "go": "Go", "yaml": "YAML", "json": "JSON", "yml": "YAML"}

// writeCode writes a block of code.
func writeCode(w io.Writer, language, text string) {
	fmt.Fprintf(w, `<div class="code" data-language="%s"><pre class="scroll" tabindex="0"><code>`, html.EscapeString(called[language]))
	if language == "text" && strings.HasPrefix(text, "limitctl ") { // the examples of a command
		language = "sh"
	}
	if language == "console" {
		writeSession(w, text)
	} else {
		fmt.Fprint(w, coloured(language, text))
	}
	fmt.Fprint(w, "</code></pre></div>\n")
}

// writeSession writes commands with what they print. The script copies the commands alone.
func writeSession(w io.Writer, text string) {
	continues := false
	for line := range strings.Lines(text) {
		prompt := line[:min(2, len(line))]
		if prompt == "$ " || prompt == "> " && continues {
			fmt.Fprintf(w, `<span class="prompt" aria-hidden="true">%s</span><span class="typed">%s</span>`, html.EscapeString(prompt),
				coloured("sh", line[2:]))
			continues = true
			continue
		}
		continues = false
		fmt.Fprint(w, html.EscapeString(line))
	}
}

// coloured is a text of a language as HTML.
func coloured(language, text string) string {
	match := languages[language]
	if match == nil {
		return html.EscapeString(text)
	}
	var b strings.Builder
	at := 0
	for _, found := range match.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(html.EscapeString(text[at:found[0]]))
		for i, class := range classes[language] {
			if found[2+2*i] >= 0 {
				fmt.Fprintf(&b, `<span class="%s">%s</span>`, class, html.EscapeString(text[found[0]:found[1]]))
			}
		}
		at = found[1]
	}
	b.WriteString(html.EscapeString(text[at:]))
	return b.String()
}
