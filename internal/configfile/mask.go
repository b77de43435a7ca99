package configfile

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/internal/yamlfile"
)

// maskSecrets returns the lines of a file for excerpts: with a "*" for each character that can be part of a
// password, so that a caret below keeps its place.
//
// In a file with mistakes the passwords can be anywhere, so the parser does not know their places. Excerpts show
// only what certainly is no password: everything within the policies unless it looks like a store, and elsewhere
// the names of fields, and few values.
func maskSecrets(lines []string) []string {
	masked := make([]string, len(lines))
	open := false    // within the policies
	comment := false // the comment above contains a store
	deeper := -1     // lines with a deeper indent belong to a value above
	fileFields, contextFields := fileObject().Names(), ContextObject().Names()
	for i, line := range lines {
		rest := strings.TrimLeft(line, " \t")
		indent := len(line) - len(rest)
		switch {
		case rest == "":
			masked[i] = line
			continue
		case strings.HasPrefix(rest, "#"):
			if comment = comment && open || !open || holdsStore(line); comment {
				line = line[:indent] + "#" + stars(rest[1:])
			}
			masked[i] = line
			continue
		}
		comment = false
		var found []string
		if indent == 0 || !open && (deeper < 0 || indent <= deeper) {
			found = entry().FindStringSubmatch(line)
		}
		if indent == 0 {
			open, deeper = opensPolicies(found, fileFields), -1
		}
		if open = open && !holdsStore(line); open {
			masked[i] = line
			continue
		}
		if deeper >= 0 && indent > deeper {
			masked[i] = line[:indent] + stars(rest)
			continue
		}
		if found == nil { // the policies contain a store
			found = entry().FindStringSubmatch(line)
		}
		var value string
		masked[i], value = maskEntry(line, found, contextFields)
		if deeper = -1; value != "" {
			deeper = indent
		}
	}
	return masked
}

// holdsStore reports whether a line may contain a store's URL or a password. The name of a layout is neither.
func holdsStore(line string) bool {
	return namesStore().MatchString(strings.ReplaceAll(line, "redis-cell", ""))
}

// namesStore matches the beginning of a store's URL or a password.
var namesStore = texts.Regexp(`(?i)://|rediss?\b|\b(store|contexts?|pass\w*|pw|secret)["']?\s*:`)

// entry matches a key, behind the dashes of lists, and its value.
var entry = texts.Regexp(`^(\s*(?:- +)*)(["']?)([A-Za-z_][A-Za-z0-9_-]{0,63})(["']?)(\s*:)(?:(\s+)(.*))?$`)

// opensPolicies reports whether an entry without an indent begins a part without stores: the policies, or any other
// field of the file but the contexts, even slightly misspelled.
func opensPolicies(found, fileFields []string) bool {
	if found == nil {
		return false
	}
	name := yamlfile.Intended(found[3], fileFields)
	return name != "" && name != "contexts"
}

// maskEntry masks a single line, or the first line of a longer value. found is the match of entry, if it is one.
func maskEntry(line string, found, contextFields []string) (masked, value string) {
	if found == nil {
		rest := strings.TrimLeft(line, " \t-")
		return line[:len(line)-len(rest)] + stars(rest), ""
	}
	value = strings.TrimRight(found[7], " \t")
	shown := 0
	switch meant := yamlfile.Intended(found[3], contextFields); {
	case strings.HasPrefix(value, "#"):
		shown = 1
		value = ""
	case blockScalar().MatchString(value):
		shown = len(value)
	case slices.Contains([]string{"read_only", "protected", "prefix", "layout"}, meant) && plainWord().MatchString(value):
		shown = len(value)
	case meant == "store":
		shown = len(storeScheme().FindString(value))
	}
	return strings.TrimSuffix(line, found[7]) + found[7][:shown] + stars(found[7][shown:]), value
}

var (
	blockScalar = texts.Regexp(`^[>|][+-]?[1-9]?$`)
	plainWord   = texts.Regexp(`^[A-Za-z0-9_-]{1,32}$`)
	storeScheme = texts.Regexp(`^["']?[a-z+]{2,16}://`)
)

func stars(secret string) string { return strings.Repeat("*", utf8.RuneCountInString(secret)) }
