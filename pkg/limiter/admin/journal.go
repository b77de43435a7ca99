package admin

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Journal is a list of texts in a store, separate from its limits, for all who use the store: for instance who
// changed what. The store does not interpret the texts. It keeps the [JournalKept] latest.
//
// All stores of this module have one. [JournalOf] finds it. Everybody who can write to the store can write to it,
// so do not trust what you read.
type Journal interface {
	// AppendJournal adds a text, which is valid UTF-8 of 1 to MaxJournalText bytes. After a
	// [store.ErrOutcomeUnknown] it may have been added.
	AppendJournal(ctx context.Context, text string) error
	// ReadJournal returns the latest entries, at most most, the oldest first. damaged is the number of entries
	// among them that AppendJournal did not write.
	ReadJournal(ctx context.Context, most int) (entries []JournalEntry, damaged int, err error)
}

// Bounds of a [Journal]. Together they bound its size, to 10 MB.
const (
	// JournalKept is the number of entries to keep.
	JournalKept = 2500
	// MaxJournalText is the most bytes in the text of an entry.
	MaxJournalText = 4096
)

// JournalEntry is a text of a [Journal].
type JournalEntry struct {
	// At is when the entry was added, by the store's clock.
	At   time.Time
	Text string
}

// CheckJournalText is for stores. It returns a [store.ErrInvalid] if a text cannot be in a journal.
func CheckJournalText(text string) error {
	switch {
	case text == "":
		return store.Invalidf("an empty text for the journal; it needs 1 to %d bytes", MaxJournalText)
	case len(text) > MaxJournalText:
		return store.Invalidf("a text of %d bytes for the journal; it can have at most %d", len(text), MaxJournalText)
	case !utf8.ValidString(text):
		return store.Invalidf("a text for the journal that is not valid UTF-8")
	}
	return nil
}

// JournalOf returns the journal of backend, or of the store that it wraps; see [DenialTableOf].
func JournalOf(backend store.Store) (journal Journal, has bool) { return store.As[Journal](backend) }
