package shell

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Tab is the command with which a [Script] gets completions. Its arguments are the shell, and the command line in
// the form of that shell.
const Tab = "__tab"

const noDescriptions = "no-descriptions"

//go:embed scripts
var scripts embed.FS

// PowerShell is the one shell whose script is not tried in tests. It asks as the scripts of the cobra library do.
const PowerShell = "powershell"

// Completed returns the names of the shells for [Script].
func Completed() []string { return []string{"bash", "zsh", "fish", PowerShell} }

// Script returns the completion script of a shell, which calls limitctl with [Tab] at every Tab key; ok is false
// for an unknown shell.
func Script(shell string, descriptions bool) (script string, ok bool) {
	if !slices.Contains(Completed(), shell) {
		return "", false
	}
	text, err := scripts.ReadFile("scripts/limitctl." + shell)
	if shell == PowerShell {
		return string(text), err == nil
	}
	if script = string(text); !descriptions {
		script = strings.Replace(script, Tab+" "+shell, Tab+" "+noDescriptions+" "+shell, 1)
	}
	return script, err == nil
}

// A Request is a shell's request for completions.
type Request struct {
	// Words are the words of the command line after the program, the last one perhaps incomplete.
	Words []string
	// ToFile: the last word is a file for a redirection.
	ToFile bool

	shell   string
	plain   bool // without descriptions
	columns int
	begun   string // the text that an offer replaces
}

// ParseRequest reads the arguments of [Tab].
func ParseRequest(args []string) (r *Request, ok bool) {
	r = new(Request)
	if len(args) > 0 && args[0] == noDescriptions {
		r.plain, args = true, args[1:]
	}
	if len(args) < 2 {
		return nil, false
	}
	var words []string
	switch r.shell, args = args[0], args[1:]; r.shell {
	case "bash":
		if len(args) != 4 {
			return nil, false
		}
		const inserted, inMenu = "42", "37" // rather than listed
		r.plain = r.plain || args[0] == inserted || args[0] == inMenu
		if r.columns, _ = strconv.Atoi(args[1]); r.columns <= 0 {
			r.columns = 80
		}
		line := ReadLine(args[3])
		words, r.ToFile, r.begun = line.Words, line.ToFile, unquote(args[2])
	case "zsh": // all as typed
		for _, arg := range args {
			words = append(words, unquote(arg))
		}
	case "fish": // all as typed except the last one, which is already parsed
		words = append(words, args[:len(args)-1]...)
		words = append(words, unquote(args[len(args)-1]))
	default:
		return nil, false
	}
	if len(words) < 2 { // the program is the first
		return nil, false
	}
	r.Words = words[1:]
	return r, true
}

// Last is the incomplete word.
func (r *Request) Last() string { return r.Words[len(r.Words)-1] }

// An Offer is a completion of the last word.
type Offer struct{ Word, Description string }

// Safe returns the offers that can be put on a command line: those without special characters of any shell, since
// some shells and scripts insert them unquoted. None begins with a dash unless one was typed, so that no name is
// taken for a flag.
func Safe(offers []Offer, begun string) []Offer {
	var safe []Offer
	for _, o := range offers {
		if !IsPlain(o.Word) || !strings.HasPrefix(o.Word, begun) || o.Word[0] == '-' && begun == "" {
			continue
		}
		if strings.ContainsFunc(o.Description, func(r rune) bool { return r == utf8.RuneError || !isVisible(r) }) {
			o.Description = ""
		}
		safe = append(safe, o)
	}
	return safe
}

// A Kind says what a shell has to do with an answer.
type Kind string

// The kinds of an answer: offers with a space after them, offers without one, or the shell's own completion of
// files.
const (
	Offers  Kind = "offers"
	NoSpace Kind = "nospace"
	Files   Kind = "files"
)

// FilesOf is the kind for files with that extension.
func FilesOf(extension string) Kind {
	if !IsPlain(extension) {
		return Files
	}
	return Files + " " + Kind(extension)
}

// Answer writes an answer in the form of the request's shell: its kind and then the offers, a line each. It
// contains only [Safe] offers.
func (r *Request) Answer(kind Kind, offers []Offer) string {
	lines := []string{string(kind)}
	if strings.HasPrefix(string(kind), string(Files)) {
		offers = nil
		if r.shell == "bash" && kind != Files && !strings.Contains(r.begun, "\n") {
			lines = append(lines, r.begun) // its value, which bash does not know
		}
	}
	offers = Safe(offers, r.Last())
	if r.plain {
		for i := range offers {
			offers[i].Description = ""
		}
	}
	switch r.shell {
	case "bash":
		lines = append(lines, r.bash(offers)...)
	case "zsh":
		for _, o := range offers {
			line := strings.ReplaceAll(o.Word, ":", `\:`)
			if o.Description != "" {
				line += ":" + o.Description
			}
			lines = append(lines, line)
		}
	case "fish":
		for _, o := range offers {
			lines = append(lines, strings.TrimSuffix(o.Word+"\t"+o.Description, "\t"))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// bash returns the offers for bash, which has no descriptions and replaces only the part of a word after its last
// separator, such as a colon.
func (r *Request) bash(offers []Offer) (lines []string) {
	before := strings.TrimSuffix(r.Last(), r.begun)
	longest := 0
	for _, o := range offers {
		longest = max(longest, utf8.RuneCountInString(o.Word)-utf8.RuneCountInString(before))
	}
	for _, o := range offers {
		line := strings.TrimPrefix(o.Word, before)
		if room := r.columns - longest - len("  ()") - 1; o.Description != "" && len(offers) > 1 && room > 10 {
			description := []rune(o.Description)
			if len(description) > room {
				description = append(description[:room-1], '…')
			}
			line = fmt.Sprintf("%-*s  (%s)", longest, line, string(description))
		}
		lines = append(lines, line)
	}
	return lines
}
