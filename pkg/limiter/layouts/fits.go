package layouts

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// CheckRecord reports why a record cannot be one that a layout of [All] has read. It goes by the names
// in it and not by the values: whoever restores a record writes its store keys, and a file that somebody
// has edited can name any. selected is what was selected when the record was read, or zero if that is
// not known. It counts for limiters whose keys can be anything.
func CheckRecord(r *admin.Record, selected store.Pattern) error {
	layout, err := Named(LayoutOf(r.Key))
	if err != nil {
		return err
	}
	name, isSelected, anyKey := layout.Info().Name, selected.IsZero() || selected.Match(r.Key.Subject), layout.Info().Prefixes == nil
	var first store.Key
	for i := range r.Members {
		part := &r.Members[i]
		key, ok := layout.Match(part.StoreKey, true)
		switch {
		case !ok:
			return fmt.Errorf("key %q cannot be of %s, as the record says", part.StoreKey, name)
		case i == 0:
			first = key
		case key != first:
			return fmt.Errorf("keys %q and %q are not of one limit of %s", r.Members[0].StoreKey, part.StoreKey, name)
		}
		if _, usual := layout.Match(part.StoreKey, false); !usual {
			anyKey = true
		}
		isSelected = isSelected || selected.Match(part.StoreKey)
	}
	if storeKey, exact := selected.Exact(); exact { // it can name a window's key that is not there
		key, ok := layout.Match(storeKey, true)
		isSelected = isSelected || ok && key == first
	}
	switch {
	case !isNamedLike(r.Key, first):
		return fmt.Errorf("key %q is not of limit %s of %q", r.Members[0].StoreKey, r.Key.Name, r.Key.Subject)
	case anyKey && !isSelected:
		return fmt.Errorf("key %q was not selected by %s", r.Members[0].StoreKey, selected)
	}
	return nil
}

// isNamedLike reports whether the key of an entry can belong to store keys with that result of Match. The
// value can show that a number at the end of a subject is a window's, or the other way round.
func isNamedLike(key, match store.Key) bool {
	number, isBegin := strings.CutPrefix(match.Subject, key.Subject+":")
	return strings.HasPrefix(key.Name, match.Name) &&
		(strings.Contains(key.Subject, match.Subject) || key.Subject != "" && isBegin && strings.Trim(number, "0123456789") == "")
}
