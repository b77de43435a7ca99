package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// StoreID returns the id of the store, or "" if it has none yet. It writes nothing.
func (t *Tables) StoreID(ctx context.Context) (string, error) {
	found, _, err := t.Get(ctx, IdentityTable, "")
	switch {
	case err != nil || len(found) == 0:
		return "", err
	case !IsStoreID(found[0].Value):
		return "", found[0].Foreign("a value that is not the id of a store")
	}
	return found[0].Value, nil
}

// EnsureStoreID returns the id of the store, and creates it if the store has none. Concurrent callers get the same id.
func (t *Tables) EnsureStoreID(ctx context.Context) (string, error) {
	if id, err := t.StoreID(ctx); err != nil || id != "" {
		return id, err
	}
	_, err := t.Change(ctx, &Change{Table: IdentityTable, What: "write of the store's id",
		Set: []TableRecord{{Value: randomHex(storeIDSize)}}})
	if err != nil {
		return "", err
	}
	return t.StoreID(ctx)
}

// storeIDSize is the number of characters of an id, a random number in hexadecimal.
const storeIDSize = 32

// randomHex returns so many characters that nobody has had before.
func randomHex(size int) string {
	random := make([]byte, size/2)
	rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// IsStoreID reports whether text has the form of an id.
func IsStoreID(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == storeIDSize
}

// Bounds of the journal: the number of entries to keep, and the most bytes in the text of one. Together they are 10 MB.
const (
	JournalKept    = 2500
	MaxJournalText = 4096
)

// JournalEntry is a text of a list.
type JournalEntry struct {
	// At is when the entry was added, by the store's clock.
	At   time.Time
	Text string
}

// checkText returns a [store.ErrInvalid] if a text cannot be in a list.
func checkText(text string) error {
	if text == "" || len(text) > MaxJournalText || !utf8.ValidString(text) {
		return store.Invalidf("a text of %d bytes for a list; it must be valid UTF-8 of 1 to %d", len(text),
			MaxJournalText)
	}
	return nil
}

// IsSound reports whether limitctl can have written the entry.
func (e *JournalEntry) IsSound() bool {
	at := store.InstantOf(e.At)
	return checkText(e.Text) == nil && at > 0 && at <= store.MaxInstant
}

// AppendJournal adds a text to the journal, which is valid UTF-8 of 1 to [MaxJournalText] bytes. After a
// [store.ErrOutcomeUnknown] it may have been added.
func (t *Tables) AppendJournal(ctx context.Context, text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	return t.Append(ctx, JournalList, text)
}

// ReadJournal returns the latest entries of the journal, at most most, the oldest first. damaged is the number of
// entries among them that AppendJournal did not write.
func (t *Tables) ReadJournal(ctx context.Context, most int) (entries []JournalEntry, damaged int, err error) {
	return t.Lines(ctx, JournalList, most)
}
