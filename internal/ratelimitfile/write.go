package ratelimitfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/texts"
)

// Text returns the rules as the sections policies and envoy of a limitctl.yaml.
func (r *Rules) Text() string {
	var b strings.Builder
	if len(r.Policies) > 0 {
		b.WriteString("policies:\n")
	}
	for _, p := range r.Policies {
		l := &p.Limits[0]
		shadow := ""
		if l.Shadow {
			shadow = ", shadow: true"
		}
		fmt.Fprintf(&b, "  %s:\n    limits: [{name: %s, by: [%s], limit: \"%s\"%s}]\n", word(p.Name), l.Name,
			wordList(l.By),
			l.Stored(), shadow)
	}
	b.WriteString("envoy:\n")
	for _, domain := range r.Domains {
		fmt.Fprintf(&b, "  %s:", word(domain))
		if len(r.Envoy[domain]) == 0 {
			b.WriteString(" []")
		}
		b.WriteByte('\n')
		for i := range r.Envoy[domain] {
			fmt.Fprintf(&b, "    - {%s}\n", strings.Join(fieldsOfDescriptor(&r.Envoy[domain][i]), ", "))
		}
	}
	return b.String()
}

// fieldsOfDescriptor are the fields of a descriptor as they stand in a file.
func fieldsOfDescriptor(d *configfile.EnvoyDescriptor) (fields []string) {
	switch {
	case d.Unlimited:
		fields = append(fields, "unlimited: true")
	case d.Deny:
		fields = append(fields, "deny: true")
	case d.Policy != "":
		fields = append(fields, "policy: "+word(d.Policy))
	}
	if d.Name != "" {
		fields = append(fields, "name: "+word(d.Name))
	}
	if len(d.Replaces) > 0 {
		fields = append(fields, "replaces: ["+wordList(d.Replaces)+"]")
	}
	var entries []string
	for i := range d.Entries {
		entry := word(d.Entries[i].String())
		if attribute := d.Entries[i].Attribute; attribute != "" {
			entry = "{" + entry + ": " + word(attribute) + "}"
		}
		entries = append(entries, entry)
	}
	return append(fields, "entries: ["+strings.Join(entries, ", ")+"]")
}

func wordList(texts []string) string {
	words := make([]string, len(texts))
	for i, text := range texts {
		words[i] = word(text)
	}
	return strings.Join(words, ", ")
}

// plainWord is a text that every YAML parser reads as that text, also within a list or a map, unless it is reserved.
var plainWord = texts.Regexp(`^[A-Za-z][A-Za-z0-9_=-]*$`)

// reserved are the words that some YAML parser reads as another value, in lower case.
var reserved = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// word writes a text so that every YAML parser reads it back.
func word(text string) string {
	if plainWord().MatchString(text) && !slices.Contains(reserved, strings.ToLower(text)) {
		return text
	}
	quoted := strconv.QuoteToASCII(text)
	return strings.NewReplacer(`\a`, `\x07`, `\v`, `\x0b`, `\f`, `\x0c`).Replace(quoted)
}
