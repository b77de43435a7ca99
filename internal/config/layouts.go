package config

import (
	"slices"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// OwnLayout is the name of limitctl's own layout.
const OwnLayout = "limitctl"

// readMappings reads the field layouts of a file.
func readMappings(r *yamlfile.Reader, v yamlfile.Value) (mappings []layouts.Source) {
	values, _ := r.List(v, "layouts", "a list of layouts and their keys, each beginning with a dash")
	for _, value := range values {
		mappings = append(mappings, readMapping(r, value))
	}
	return mappings
}

func readMapping(r *yamlfile.Reader, v yamlfile.Value) (m layouts.Source) {
	fields, ok := r.Fields(v, "the layout", configfile.Fields("layout"))
	if !ok {
		return m
	}
	m.Layout, _ = yamlfile.Parsed(r, fields["layout"], "layout", "the name of one, such as redis_rate", namedLayout)
	m.Keys, _ = yamlfile.Parsed(r, fields["keys"], "keys", "a glob over whole keys, such as rate:login:*",
		store.ParseStoreKeyPattern)
	m.Limit, _ = yamlfile.Parsed(r, fields["limit"], "limit", "COUNT/PERIOD, such as 10/1m", layouts.ParseLimit)
	_, hasKeys := fields["keys"]
	_, hasLimit := fields["limit"]
	if !hasKeys && !hasLimit && !r.HasMistakeWithin(v.Path) {
		r.Mistake(v, "it says nothing of the layout; give it keys, a limit, or both")
	}
	return m
}

// namedLayout returns a layout that a mapping can name.
func namedLayout(name string) (layouts.Layout, error) {
	if name == layouts.Auto {
		return nil, store.Invalidf("auto is not the layout of keys; name the one that they have")
	}
	return layouts.Named(name)
}

// readLayout reads the field layout of a context: one name or a list of them. The result is nil for limitctl's own
// keys.
func readLayout(r *yamlfile.Reader, v yamlfile.Value) []string {
	const want = "the name of a layout, such as redis_rate, or auto, or a list of names"
	var names []string
	for _, value := range r.OneOrMore(v) {
		name, ok := r.Text(value, "layout", want)
		if !ok {
			continue
		}
		if err := CheckLayouts(append(names, name)); err != nil {
			r.Mistake(value, "%s", err)
			continue
		}
		names = append(names, name)
	}
	if slices.Equal(names, []string{OwnLayout}) {
		return nil
	}
	return names
}

// CheckLayouts returns a [store.ErrInvalid] if keys cannot be read with these layouts together.
func CheckLayouts(names []string) error {
	for i, name := range names {
		switch {
		case slices.Contains(names[:i], name):
			return store.Invalidf("layout %q is named twice; name it once", name)
		case len(names) > 1 && slices.Contains(names, layouts.Auto):
			return store.Invalidf("auto is all layouts; give it alone")
		case len(names) > 1 && slices.Contains(names, OwnLayout):
			return store.Invalidf("limitctl stands for its own keys, which are not read together with others; give " +
				"it alone")
		case name == layouts.Auto || name == OwnLayout:
			continue
		}
		if _, err := layouts.Named(name); err != nil {
			return err
		}
	}
	return nil
}
