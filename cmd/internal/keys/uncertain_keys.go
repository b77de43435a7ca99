package keys

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// unsureDocument is the keys that look like a limiter's and were left out, in JSON.
type unsureDocument struct {
	Count int64               `json:"count"`
	First []unsureKeyDocument `json:"first"`
	// NoTTL is how many of them have no expiry, and may deny for ever. They come first in First.
	NoTTL int64 `json:"no_ttl"`
}

// unsureKeyDocument is one of them: it may be of any of Layouts, unless one of the other fields is set.
type unsureKeyDocument struct {
	StoreKey string `json:"store_key"`
	// StoreKeyBase64 are the bytes of a StoreKey that is not UTF-8, which JSON cannot hold.
	StoreKeyBase64 string   `json:"store_key_base64,omitempty"`
	Layouts        []string `json:"layouts"`
	Is             string   `json:"is,omitempty"`     // what it certainly is, of a layout that the command does not read
	Defect         string   `json:"defect,omitempty"` // its defect if it is of the layout
	Wrong          string   `json:"wrong,omitempty"`  // what none of the layouts writes
	NoTTL          bool     `json:"no_ttl"`
}

func newUnsureDocument(u *operation.Unsure) *unsureDocument {
	d := &unsureDocument{Count: u.Count, NoTTL: u.NeverExpire, First: []unsureKeyDocument{}}
	for _, key := range u.First {
		d.First = append(d.First, unsureKeyDocument{StoreKey: key.StoreKey,
			StoreKeyBase64: output.Base64IfNeeded(key.StoreKey), Layouts: key.Layouts, Is: key.Is, Defect: key.Defect,
			Wrong: key.Wrong, NoTTL: key.NeverExpires})
	}
	return d
}

// noteUnsure prints the keys that look like a limiter's and were left out; left is the word for that, such as "not
// shown".
func noteUnsure(g *cli.Globals, u *operation.Unsure, left string) {
	if u.Count == 0 {
		return
	}
	if key := u.First[0]; u.Count == 1 && isOfSomebody(key) {
		wrong := ""
		switch {
		case key.Defect != "":
			wrong = " (" + key.Defect + ")"
		case key.NeverExpires:
			wrong = " (no TTL, so it may deny for ever)"
		}
		g.Note("1 key may be of %s and is %s: %s%s; ask for it with %s", strings.Join(key.Layouts, " or "), left,
			output.Printable(output.Shorten(key.StoreKey, cli.LongestKey)), wrong, waysToAsk(u.First)[0])
		return
	}
	are := "are"
	if u.Count == 1 {
		are = "is"
	}
	g.Note("%s %s %s%s:", output.Plural(int(u.Count), "key"), are, left, noTTLText(u))
	for _, key := range u.First {
		g.Say("  %s", output.Printable(output.Shorten(key.Error(), 3*cli.LongestKey)))
	}
	if more := u.Count - int64(len(u.First)); more > 0 {
		g.Say("  … and %s more", output.Thousands(more))
	}
	if ways := waysToAsk(u.First); len(ways) > 0 {
		g.Say("  select such keys with %s", strings.Join(ways, ", or "))
	}
}

// isOfSomebody reports whether an uncertain key can be of each of its layouts.
func isOfSomebody(key *layouts.UnsureError) bool { return key.Is == "" && key.Wrong == "" }

// noTTLText is how many of several uncertain keys have no expiry.
func noTTLText(u *operation.Unsure) string {
	switch {
	case u.NeverExpire == 0:
		return ""
	case u.NeverExpire == 1:
		return "; 1 of them has no TTL, and may deny for ever"
	}
	return fmt.Sprintf("; %s of them have no TTL, and may deny for ever", output.Thousands(u.NeverExpire))
}

// waysToAsk returns flags and patterns that select the uncertain keys: as few as possible, and at most three.
func waysToAsk(keys []*layouts.UnsureError) (ways []string) {
	const most = 3
	left := slices.DeleteFunc(slices.Clone(keys), func(key *layouts.UnsureError) bool { return !isOfSomebody(key) })
	for len(left) > 0 && len(ways) < most {
		name, pattern := asksFor(left)
		ways = append(ways, shell.Command("--layout", name, pattern))
		asked, err := store.ParseStoreKeyPattern(pattern)
		left = slices.DeleteFunc(left[1:], func(key *layouts.UnsureError) bool {
			return err == nil && slices.Contains(key.Layouts, name) && asked.Match(key.StoreKey)
		})
	}
	return ways
}

// asksFor returns a layout of the first key, and a pattern that selects it: all keys with the layout's usual prefix if
// the key has that, else the common beginning of the keys, else the key.
func asksFor(keys []*layouts.UnsureError) (name, pattern string) {
	key := keys[0]
	for _, name := range key.Layouts {
		layout, err := layouts.Named(name)
		if err != nil {
			continue
		}
		for _, prefix := range layout.Info().Prefixes {
			if strings.HasPrefix(key.StoreKey, prefix) && len(prefix) > 1 { // one character is too short
				return name, store.EscapeGlob(prefix) + "*"
			}
		}
	}
	if begin := commonBeginning(keys); len(begin) > 1 {
		return key.Layouts[0], store.EscapeGlob(begin) + "*"
	}
	if len(key.StoreKey) > cli.LongestKey {
		return key.Layouts[0], store.EscapeGlob(key.StoreKey[:cli.LongestKey]) + "*"
	}
	return key.Layouts[0], store.EscapeGlob(key.StoreKey)
}

// commonBeginning is the common beginning of several keys of one layout, up to a separator: "rate_limit:" for
// "rate_limit:anna" and "rate_limit:bob". It can be empty.
func commonBeginning(keys []*layouts.UnsureError) string {
	if len(keys) < 2 {
		return ""
	}
	begin := keys[0].StoreKey
	for _, key := range keys[1:] {
		if !slices.Equal(key.Layouts, keys[0].Layouts) {
			return ""
		}
		same := 0
		for same < min(len(begin), len(key.StoreKey)) && begin[same] == key.StoreKey[same] {
			same++
		}
		begin = begin[:same]
	}
	begin = begin[:min(len(begin), cli.LongestKey)]
	return begin[:strings.LastIndexAny(begin, ":/|_-")+1]
}
