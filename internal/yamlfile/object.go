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
		if slices.Contains(names, e.Name) {
			fields[e.Name] = e
		}
	}
	for _, e := range entries {
		if slices.Contains(names, e.Name) {
			continue
		}
		meant, said := intended(e.Name, names), strconv.Quote(e.Name)
		remedy := "did you mean " + meant + "?"
		if meant == "" { // it may not be a name at all
			said, remedy = quote(v.Path, e.Name), "it has "+strings.Join(names, ", ")
		}
		if option, value, is := strings.Cut(e.Name, "="); is && slices.Contains(names, option) {
			remedy = fmt.Sprintf("inside {} a comma ends the limit; quote it, or write %s: %s", option, value)
		}
		r.mistake(v.Path+".?", e.key, "%s has no field %s; %s", what, said, remedy)
		if _, there := fields[meant]; !there { // otherwise that one is read
			r.bad[join(v.Path, meant)] = true
		}
	}
	for _, f := range o.Fields {
		if _, found := fields[f.Name]; f.Required && !found && !r.bad[join(v.Path, f.Name)] {
			at := v.key
			if v.Name == "" {
				at = r.point(v)
			}
			about := strings.ToLower(f.About[:1]) + strings.TrimSuffix(f.About[1:], ".")
			r.mistake(join(v.Path, f.Name), at, "%s has no %s: %s", what, f.Name, about)
		}
	}
	return fields, true
}

// intended returns the one of the names that an unknown name probably means, or "": "password" is for password_file.
func intended(name string, names []string) string {
	isBeginning := func(candidate string) bool { return len(name) > 2 && strings.HasPrefix(candidate, name) }
	if i := slices.IndexFunc(names, isBeginning); i >= 0 && Nearest(name, names) == "" {
		return names[i]
	}
	return Nearest(name, names)
}

// Nearest returns the one of the names that differs from name in the fewest letters, if that is one letter or at most a
// third of them; otherwise "".
func Nearest(name string, names []string) string {
	return texts.Nearest(name, names, max(1, (len(name)+1)/3))
}
