package config

import (
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Mistake is one mistake in a file, with its place.
type Mistake = yamlfile.Mistake

// Mistakes is the error of files with mistakes, in the order of the files and of
// their lines. It is a [store.ErrInvalid].
type Mistakes struct{ List []Mistake }

// Error returns a block for each mistake, without colours.
func (m *Mistakes) Error() string { return yamlfile.Format(m.List, yamlfile.Plain) }

// Is makes Mistakes a store.ErrInvalid.
func (m *Mistakes) Is(target error) bool { return target == store.ErrInvalid }

// Format writes a block for each mistake: place, text and excerpt. emphasize marks the text and the caret.
func (m *Mistakes) Format(emphasize func(text string) string) string {
	return yamlfile.Format(m.List, emphasize)
}
