package cmd

import (
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
)

// unsureDocument is the keys that look like a limiter's and were left out, in JSON.
type unsureDocument struct {
	Count int64               `json:"count"`
	First []unsureKeyDocument `json:"first"`
}

// unsureKeyDocument is one of them: it may be of any of Layouts, unless one of the others says
// more.
type unsureKeyDocument struct {
	StoreKey string   `json:"store_key"`
	Layouts  []string `json:"layouts"`
	Is       string   `json:"is,omitempty"`     // what it is for sure, of a layout that was not asked for
	Defect   string   `json:"defect,omitempty"` // what is wrong with it if it is the layout's
	Wrong    string   `json:"wrong,omitempty"`  // what the layouts do not write
}

func newUnsureDocument(u *operation.Unsure) *unsureDocument {
	d := &unsureDocument{Count: u.Count, First: []unsureKeyDocument{}}
	for _, key := range u.First {
		d.First = append(d.First, unsureKeyDocument{key.StoreKey, key.Layouts, key.Is, key.Defect, key.Wrong})
	}
	return d
}

// longestShown is how many bytes of a key a message shows.
const longestShown = 100

// noteUnsure says which keys look like a limiter's and were left out; left is what became of
// them, such as "not shown".
func (g *globalOptions) noteUnsure(u *operation.Unsure, left string) {
	if u.Count == 0 {
		return
	}
	are, them := "are", "them"
	if u.Count == 1 {
		are, them = "is", "it"
	}
	nobodyKnows := func(key *foreign.UnsureError) bool { return key.Is == "" && key.Wrong == "" }
	if at := slices.IndexFunc(u.First, func(key *foreign.UnsureError) bool { return !nobodyKnows(key) }); at >= 0 {
		g.note("%s %s %s:", output.Plural(int(u.Count), "key"), are, left)
		for _, key := range u.First {
			g.say("  %s", output.Printable(output.Shorten(key.Error(), 3*longestShown)))
		}
		if more := u.Count - int64(len(u.First)); more > 0 {
			g.say("  … and %s more", output.Thousands(more))
		}
		return
	}
	var layouts, keys []string
	for _, key := range u.First {
		layouts = append(layouts, key.Layouts...)
		keys = append(keys, output.Shorten(key.StoreKey, longestShown))
	}
	slices.Sort(layouts)
	layouts = slices.Compact(layouts)
	if int64(len(keys)) < u.Count {
		keys = append(keys, "…")
	}
	name, pattern := asksFor(u.First)
	g.note("%s may be of %s and %s %s: %s; ask for %s with %s", output.Plural(int(u.Count), "key"),
		strings.Join(layouts, " or "), are, left, output.Printable(strings.Join(keys, ", ")), them,
		shell.Command("--layout", name, pattern))
	for _, key := range u.First {
		if key.Defect != "" {
			g.say("  %s", output.Printable(output.Shorten(key.Error(), 3*longestShown)))
		}
	}
}

// asksFor returns a layout that the first of some unsure keys can be asked for by, and a pattern:
// all keys with the layout's usual prefix if the key has that, else what the keys begin with in
// common, else the key.
func asksFor(keys []*foreign.UnsureError) (name, pattern string) {
	key := keys[0]
	for _, name := range key.Layouts {
		layout, err := foreign.Named(name)
		if err != nil {
			continue
		}
		for _, prefix := range layout.Info().Prefixes {
			if strings.HasPrefix(key.StoreKey, prefix) && len(prefix) > 1 { // one character says too little
				return name, limiter.EscapeGlob(prefix) + "*"
			}
		}
	}
	if begin := commonBeginning(keys); len(begin) > 1 {
		return key.Layouts[0], limiter.EscapeGlob(begin) + "*"
	}
	if len(key.StoreKey) > longestShown {
		return key.Layouts[0], limiter.EscapeGlob(key.StoreKey[:longestShown]) + "*"
	}
	return key.Layouts[0], limiter.EscapeGlob(key.StoreKey)
}

// commonBeginning is what several keys of one layout begin with, up to a separator: "rate_limit:"
// of "rate_limit:anna" and "rate_limit:bob". It is empty if they have none in common.
func commonBeginning(keys []*foreign.UnsureError) string {
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
	begin = begin[:min(len(begin), longestShown)]
	return begin[:strings.LastIndexAny(begin, ":/|_-")+1]
}
