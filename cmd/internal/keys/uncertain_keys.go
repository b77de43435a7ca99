package keys

import (
	"fmt"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// unsureDocument is the keys that look like a limiter's and were left out, in JSON.
type unsureDocument struct {
	Count int64               `json:"count"`
	First []unsureKeyDocument `json:"first"`
	// NoTTL is how many of them have no expiry, and may deny for ever. They come first in First.
	NoTTL int64 `json:"no_ttl"`
}

// unsureKeyDocument is one of them: it may be of any of Layouts, unless Wrong is set.
type unsureKeyDocument struct {
	StoreKey string `json:"store_key"`
	// StoreKeyBase64 are the bytes of a StoreKey that is not UTF-8, which JSON cannot hold.
	StoreKeyBase64 string   `json:"store_key_base64,omitempty"`
	Layouts        []string `json:"layouts"`
	Defect         string   `json:"defect,omitempty"` // its defect if it is of the layout
	Wrong          string   `json:"wrong,omitempty"`  // what none of the layouts writes
	NoTTL          bool     `json:"no_ttl"`
}

func newUnsureDocument(u *operation.Unsure) *unsureDocument {
	d := &unsureDocument{Count: u.Count, NoTTL: u.NeverExpire, First: []unsureKeyDocument{}}
	for _, key := range u.First {
		d.First = append(d.First, unsureKeyDocument{StoreKey: key.StoreKey,
			StoreKeyBase64: output.Base64IfNeeded(key.StoreKey), Layouts: key.Layouts, Defect: key.Defect,
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
	noTTL := ""
	if u.NeverExpire > 0 {
		noTTL = fmt.Sprintf(", %s without TTL, which may deny for ever", output.Thousands(u.NeverExpire))
	}
	g.Note("%s %s%s; select such keys with --layout NAME and a PATTERN of store keys:", output.Plural(int(u.Count), "key"), left, noTTL)
	for _, key := range u.First {
		g.Say("  %s", output.Printable(output.Shorten(key.Error(), 3*cli.LongestKey)))
	}
	if more := u.Count - int64(len(u.First)); more > 0 {
		g.Say("  … and %s more", output.Thousands(more))
	}
}
