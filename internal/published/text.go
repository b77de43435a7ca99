package published

import (
	"reflect"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// stays are the parts of a file that are never published: where the stores are, and how people look at keys there.
var stays = []string{"contexts", "prefix", "layouts"}

// topKey matches a line that begins a part of a file in block style.
var topKey = texts.Regexp(`^(?:"([^"]*)"|'([^']*)'|([A-Za-z_][\w-]*))[ \t]*:(?:[ \t\r\n]|$)`)

// TextOf returns the text of a configuration to publish: the file without the parts that stay where it is, comments
// included. data has no mistakes. An error is a [store.ErrInvalid]: those parts cannot be taken out, because others
// refer to them.
func TextOf(path string, data []byte) ([]byte, error) {
	var text, comments strings.Builder
	left := false
	for line := range strings.Lines(string(data)) {
		key := topKey().FindStringSubmatch(line)
		switch {
		case key != nil:
			if left = slices.Contains(stays, key[1]+key[2]+key[3]); !left {
				text.WriteString(comments.String())
				text.WriteString(line)
			}
			comments.Reset()
			continue
		case strings.HasPrefix(line, "#"): // it belongs to what follows
			comments.WriteString(line)
			continue
		}
		if !left {
			text.WriteString(comments.String())
			text.WriteString(line)
		}
		comments.Reset()
	}
	if !left {
		text.WriteString(comments.String())
	}
	whole, _ := configfile.Read(path, data, configfile.Operators{})
	published, err := Parse(path, []byte(text.String()))
	if err != nil || !same(&whole, published) {
		return nil, store.Invalidf("%s has policies and contexts that cannot be told apart; move its policies, http and envoy to a file "+
			"of their own, and publish that", path)
	}
	return []byte(text.String()), nil
}

// same reports whether two files decide alike.
func same(a, b *configfile.File) bool {
	one, other := *a, *b
	one.Prefix, other.Prefix = "", ""
	return reflect.DeepEqual(one, other)
}

// Parse reads the text of a published configuration; name is its name in mistakes. It refuses a text with contexts,
// which [TextOf] never returns. An error is a [store.ErrInvalid] with a line for each mistake.
func Parse(name string, text []byte) (*configfile.File, error) {
	refuse := func(r *yamlfile.Reader, v yamlfile.Value) {
		r.Mistake(v, "a published configuration has neither contexts nor layouts")
	}
	file, r := configfile.Read(name, text, configfile.Operators{Contexts: refuse, Layouts: refuse})
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		return nil, store.Invalidf("%s", yamlfile.Format(mistakes))
	}
	return &file, nil
}
