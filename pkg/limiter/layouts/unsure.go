package layouts

import (
	"strconv"
	"strings"
)

// UnsureError says why a store key that looks like a limiter's was left out. It concerns one key.
//
// It is not a [store.ForeignError], and no reason for a command to fail: nobody asked for just
// this key, or the key is in order and another limiter's. Several limiters have the same prefix,
// so that a pattern such as "rate:*" also selects keys that its author did not think of. Nothing
// about them is to be put right.
type UnsureError struct {
	StoreKey string
	// Layouts are the names of those that the key looks like. If Wrong is not set,
	// each of them may have written it.
	Layouts []string
	// Defect is what is wrong with the key if it is of the only one of Layouts, such as "no expiry,
	// so the key stays"; empty if nothing is.
	Defect string
	// Wrong is what is wrong with the value if none of Layouts can have written it.
	Wrong string
	// NeverExpires: the key can be of Layouts, and the store keeps it for ever. If it is a counter, it
	// denies for ever once it is at its limit, so such keys are the first to look at.
	NeverExpires bool
}

// Error names the key and the layouts. A key that is not printable is quoted.
func (e *UnsureError) Error() string {
	text, layouts := "key "+strconv.Quote(e.StoreKey), strings.Join(e.Layouts, " or ")
	switch {
	case e.Wrong != "":
		return text + " holds " + e.Wrong + ", which " + layouts + " does not write"
	}
	text += " may be of " + layouts
	switch {
	case e.Defect != "":
		text += ": " + e.Defect
	case e.NeverExpires:
		text += ", and has no TTL"
	}
	return text
}
