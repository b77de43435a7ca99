package backup

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// layoutFields are the additional fields of a line for a limit of another limiter.
type layoutFields struct {
	// Parts are its values.
	Parts []part `json:"parts,omitempty"`
	// Limit and Used are in backups of earlier versions of limitctl, and nothing needs them.
	Limit string `json:"limit,omitempty"`
	Used  *int64 `json:"used,omitempty"`
	// KeyBytes and NameBytes are the subject and the name if these are not UTF-8.
	KeyBytes  []byte `json:"key_bytes,omitempty"`
	NameBytes []byte `json:"name_bytes,omitempty"`
}

// part is an [admin.Part].
type part struct {
	StoreKey  []byte `json:"store_key"` // may not be UTF-8
	Type      string `json:"type"`
	Dump      []byte `json:"dump"`
	ExpiresMS int64  `json:"expires_ms"`
}

// setLayout fills in the fields for a record of another limiter.
func (l *line) setLayout(r *admin.Record) {
	for _, p := range r.Members {
		l.Parts = append(l.Parts, part{[]byte(p.StoreKey), p.Type, p.Dump, min(expiryOf(p.Expires), latestOfOthers)})
	}
	if !utf8.ValidString(r.Key.Subject) {
		l.KeyBytes = []byte(r.Key.Subject)
	}
	if !utf8.ValidString(r.Key.Name) {
		l.NameBytes = []byte(r.Key.Name)
	}
}

// latestOfOthers is the latest expiry of another limiter in a backup, in ms since the epoch: the scripts of Redis
// cannot represent more exactly. Some limiters are known to set expiries in tens of thousands of years.
const latestOfOthers = 1 << 53

// layout reads the record of another limiter from a line with parts.
func (e *entry) layout(l *line) error {
	for _, p := range l.Parts {
		expires, err := readExpiry(p.ExpiresMS, latestOfOthers)
		if err != nil {
			return err
		}
		e.Members = append(e.Members,
			admin.Member{StoreKey: string(p.StoreKey), Type: p.Type, Dump: p.Dump, Expires: expires})
	}
	if l.KeyBytes != nil {
		e.Key.Subject = string(l.KeyBytes)
	}
	if l.NameBytes != nil {
		e.Key.Name = string(l.NameBytes)
	}
	switch {
	case e.unchanged && e.Members[0].StoreKey == "":
		return errors.New("it names no store key")
	case e.unchanged:
		return nil
	}
	return e.Check()
}

// check returns why a record cannot belong to this backup.
func (c *Contents) check(e *entry) error {
	switch {
	case c.Layout == "" && len(e.Members) == 0:
		return nil
	case c.Layout == "":
		return fmt.Errorf("key %q is another limiter's, and the backup is of limitctl's own keys",
			e.Members[0].StoreKey)
	case len(e.Members) == 0 && !e.unchanged && e.Value != nil:
		return fmt.Errorf("key %q is limitctl's own, and the backup is of other limiters' keys", e.Key.Subject)
	case len(e.Members) == 0:
		return nil
	}
	if c.selected == nil {
		selected := selectedBy(c.Selection)
		c.selected = &selected
	}
	return layouts.CheckRecord(&e.Record, *c.selected)
}

// selectedBy returns the pattern at the beginning of a selection in words. It is zero if there is none, as for keys
// chosen in the dashboard, or if it cannot be parsed.
func selectedBy(selection string) (pattern store.Pattern) {
	words := shell.Words(selection)
	exact := len(words) > 1 && words[0] == "--exact"
	if exact {
		words = words[1:]
	}
	// If the text ends with the word it may be cut off; and a text in another form is not parsed.
	rest, whole := strings.CutPrefix(strings.TrimPrefix(selection, "--exact "), shell.Command(words[0])+" ")
	if !whole || !strings.HasPrefix(rest, "--") {
		return pattern
	}
	parse := store.ParseStoreKeyPattern
	if exact {
		parse = store.ExactStoreKeyPattern
	}
	pattern, _ = parse(words[0])
	return pattern
}

// identity identifies a record in a backup. Keys of other limiters can have the same subject and name, so their
// first store key counts, too.
type identity struct {
	store.Key
	storeKey string
}

func identityOf(r *admin.Record) identity {
	id := identity{Key: r.Key}
	if len(r.Members) > 0 {
		id.storeKey = r.Members[0].StoreKey
	}
	return id
}
