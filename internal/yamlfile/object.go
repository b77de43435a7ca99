package yamlfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
)

// Object describes a map of the file: the fields that a reader accepts in it.
type Object struct {
	// About describes the map in a sentence.
	About  string
	Fields []Field
}

// Field is a field of an [Object].
type Field struct {
	Name string
	// About describes the field in a sentence.
	About    string
	Required bool
	// Schema returns the JSON Schema of the field's value, a new map for each use.
	Schema func() map[string]any
}

// Names returns the names of the fields, in order.
func (o *Object) Names() []string {
	names := make([]string, len(o.Fields))
	for i, f := range o.Fields {
		names[i] = f.Name
	}
	return names
}

// Fields reads a map with the fields of an object, and notes unknown or missing ones. what names the map in a
// mistake, such as "the limit".
func (r *Reader) Fields(v Value, what string, o *Object) (fields map[string]Value, ok bool) {
	names := o.Names()
	entries, ok := r.Map(v, what, "a map of "+strings.Join(names, ", "))
	if !ok {
		return nil, false
	}
	fields = map[string]Value{}
	for _, e := range entries {
		if !slices.Contains(names, e.Name) {
			meant := intended(e.Name, names)
			said := strconv.Quote(e.Name)
			if meant == "" { // it may not be a name at all
				said = quote(v.Path, e.Name)
			}
			r.mistake(v.Path+".?", e.key, "%s has no field %s; %s", what, said, remedy(e.Name, meant, names))
			if !slices.ContainsFunc(entries, func(other Value) bool { return other.Name == meant }) { // otherwise that one is read
				r.bad[join(v.Path, meant)] = true
			}
			continue
		}
		fields[e.Name] = e
	}
	for _, f := range o.Fields {
		if _, found := fields[f.Name]; f.Required && !found && !r.bad[join(v.Path, f.Name)] {
			at := v.key
			if v.Name == "" {
				at = r.point(v)
			}
			r.mistake(join(v.Path, f.Name), at, "%s has no %s: %s", what, f.Name, lowerFirst(f.About))
		}
	}
	return fields, true
}

// intended returns the one of the names that an unknown name probably means, or "".
func intended(name string, names []string) string {
	if near := Nearest(name, names); near != "" {
		return near
	}
	for _, candidate := range names { // "password" for password_file
		if len(name) > 2 && strings.HasPrefix(candidate, name) {
			return candidate
		}
	}
	return ""
}

// Nearest returns the one of the names that differs from name in the fewest letters, if that is one letter or at
// most a third of them; otherwise "".
func Nearest(name string, names []string) string {
	return texts.Nearest(name, names, max(1, (len(name)+1)/3))
}

// remedy returns what to do about an unknown field.
func remedy(name, meant string, names []string) string {
	if option, value, is := strings.Cut(name, "="); is && slices.Contains(names, option) {
		return fmt.Sprintf("inside {} a comma ends the limit; quote it, or write %s: %s", option, value)
	}
	if meant != "" {
		return fmt.Sprintf("did you mean %s?", meant)
	}
	return "it has " + strings.Join(names, ", ")
}

func lowerFirst(text string) string {
	return strings.ToLower(text[:1]) + strings.TrimSuffix(text[1:], ".")
}
