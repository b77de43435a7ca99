package admin

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Journal is where a store keeps a list of texts that all who use it can read, apart from
// its limits: for instance who changed what others have. The store does not know what
// the texts mean. It keeps the [JournalKept] latest.
//
// All stores of this module have one. [JournalOf] finds it. Whoever may write to the store
// may write to it, so what is read is to be taken with care.
type Journal interface {
	// AppendJournal adds a text, which is valid UTF-8 of 1 to MaxJournalText bytes. After
	// a [store.ErrOutcomeUnknown] it may have been added.
	AppendJournal(ctx context.Context, text string) error
	// ReadJournal returns the latest entries, at most that many, the oldest of them first.
	// damaged is how many others were found among them that AppendJournal did not write.
	ReadJournal(ctx context.Context, most int) (entries []JournalEntry, damaged int, err error)
}

// Bounds of a [Journal]. Together they bound its size, to 10 MB.
const (
	// JournalKept is how many entries are kept.
	JournalKept = 2500
	// MaxJournalText is how many bytes the text of an entry has.
	MaxJournalText = 4096
)

// JournalEntry is a text of a [Journal].
type JournalEntry struct {
	// At is when it was added, by the store's clock.
	At   time.Time
	Text string
}

// CheckJournalText is for stores. It reports, as a [store.ErrInvalid], what makes a text unfit for
// a journal.
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
