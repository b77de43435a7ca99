package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// DenialTable is where a store keeps who was denied how often, apart from its limits: a
// denied take changes no key. There is a part for each minute of the store's clock, which
// is kept for [DenialHistory] and then goes by itself. A part has the [DenialsKept] keys
// that were denied most.
//
// All stores of this module have one. [DenialTableOf] finds it, the option limiter.DenialLog writes it.
type DenialTable interface {
	// AddDenials adds d to the current minute. d.Rows are at most MaxDenialRows, each
	// key once, and no longer than [Denied.Shorten] leaves them. LastAt and Now are by the
	// caller's clock, of which only the difference counts. After a [store.ErrOutcomeUnknown]
	// they may have been added.
	AddDenials(ctx context.Context, d Denials) error
	// Denials sums up the minutes that the last so much time is in. last is more than 0,
	// and at most DenialHistory. With an [IncompleteError] there are the denials of the
	// minutes that other masters have, too, and Lost is true.
	Denials(ctx context.Context, last time.Duration) (Denials, error)
}

// Bounds of a [DenialTable].
const (
	DenialHistory = time.Hour
	// DenialsKept is how many keys a minute has, those that were denied most.
	DenialsKept = 1000
	// MaxDenialRows is how many keys are added in one call.
	MaxDenialRows = 200
	// MaxDenialText is how many bytes of a subject and of a name a row has.
	MaxDenialText = 200
)

// Denials is who was denied how often.
type Denials struct {
	// Rows are the keys. A table returns those that were denied most first.
	Rows []Denied
	// Others counts the denials that are not told apart by key: there were too many
	// different keys.
	Others int64
	// Lost: some denials are counted nowhere, since it is not known what became of them.
	Lost bool
	// Now is what the clock showed that each LastAt is by.
	Now store.Instant
}

// Denied is how often one key was denied.
type Denied struct {
	Key store.Key
	// Count is exact if [Denials.Exact], else that often at least.
	Count int64
	// LastAt is when it was denied last.
	LastAt store.Instant
}

// Exact reports whether the counts of all rows are exact, and no other key was denied.
func (d *Denials) Exact() bool { return d.Others == 0 && !d.Lost }

// Total returns how many denials there were of all keys. It is exact unless some are Lost.
func (d *Denials) Total() int64 {
	total := d.Others
	for i := range d.Rows {
		total += d.Rows[i].Count
	}
	return total
}

// Check is for stores. It reports, as a [store.ErrInvalid], what makes d unfit to be added.
func (d *Denials) Check() error {
	if len(d.Rows) > MaxDenialRows {
		return store.Invalidf("%d rows of denials in one call; at most %d fit", len(d.Rows), MaxDenialRows)
	}
	if d.Others < 0 {
		return store.Invalidf("%d other denials; there must be 0 or more", d.Others)
	}
	seen := make(map[store.Key]bool, len(d.Rows))
	for i := range d.Rows {
		key := d.Rows[i].Key
		switch {
		case seen[key]:
			return store.Invalidf("the key %s is in two rows of denials; sum them up", key)
		case d.Rows[i].Count < 1:
			return store.Invalidf("%d denials of %s; there must be 1 or more", d.Rows[i].Count, key)
		}
		seen[key] = true
		if err := key.Validate(); err != nil {
			return err
		}
		if len(key.Subject) > MaxDenialText || len(key.Name) > MaxDenialText || key.Name == "" {
			return store.Invalidf("the key %s does not fit a row of denials, whose subject and name have 1 to %d bytes", key, MaxDenialText)
		}
	}
	return nil
}

// Shorten cuts a subject and a name that are longer than [MaxDenialText], and puts a hash
// at the end, so that different ones stay different, and one is the same from every process.
func (d *Denied) Shorten() {
	d.Key.Subject, d.Key.Name = shorten(d.Key.Subject), shorten(d.Key.Name)
}

func shorten(text string) string {
	if len(text) <= MaxDenialText {
		return text
	}
	const mark, hashBytes = "…", 8
	sum := sha256.Sum256([]byte(text))
	end := MaxDenialText - len(mark) - 2*hashBytes
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark + hex.EncodeToString(sum[:hashBytes])
}

// DenialTableOf returns the table of backend, or of the store that it wraps. There is none
// if that store has none, or is wrapped by something that does not say what it wraps: what
// [store.Wrap] returns does.
func DenialTableOf(backend store.Store) (table DenialTable, has bool) {
	return store.As[DenialTable](backend)
}
