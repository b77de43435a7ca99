package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.Journal = (*Store)(nil)

const (
	// journalField is the one field of each entry of the stream.
	journalField = "text"
	// journalPage is how many entries are read at a time, so that an answer stays small.
	journalPage = 250
)

// journalKey returns the key of the journal, which is a stream. It does not expire: nobody
// should be able to wait until a change is forgotten.
func (s *Store) journalKey() string { return string(s.lanes.Own) + "!{audit}" }

// AppendJournal implements [admin.Journal] by a single XADD, which also removes what is
// more than is kept. Entries are dated by the server, whatever clock the store decides by.
func (s *Store) AppendJournal(ctx context.Context, text string) error {
	if err := cmp.Or(s.lanes.Check(), admin.CheckJournalText(text)); err != nil {
		return err
	}
	key := s.journalKey()
	_, err := s.lanes.Write(ctx, key, true, "xadd", key, "maxlen", admin.JournalKept, "*", journalField, text)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return notAJournal(key)
	}
	if err != nil {
		return s.lanes.Explain(err, "write to the journal", true, []string{key})
	}
	return nil
}

func notAJournal(key string) error {
	return &store.ForeignError{StoreKey: key, Holds: "a value that is not a journal"}
}

// ReadJournal implements [admin.Journal].
func (s *Store) ReadJournal(ctx context.Context, most int) (entries []admin.JournalEntry, damaged int, err error) {
	return s.readStream(ctx, s.journalKey(), min(most, admin.JournalKept), "read of the journal", notAJournal)
}

// readStream returns the latest texts of a stream, a page at a time.
func (s *Store) readStream(ctx context.Context, key string, most int, reading string, foreign func(key string) error) (
	entries []admin.JournalEntry, damaged int, err error,
) {
	if err := s.lanes.Check(); err != nil {
		return nil, 0, err
	}
	end, err := s.lanes.Alone(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	before := "+"
	for most > 0 && before != "" {
		page := min(most, journalPage)
		cmd, err := s.lanes.Read(ctx, key, "xrevrange", key, before, "-", "count", page)
		if redisserver.IsErrorReply(err, "WRONGTYPE") {
			return nil, 0, foreign(key)
		} else if err != nil {
			return nil, 0, s.lanes.Explain(err, reading, false, []string{key})
		}
		found, isArray := cmd.Val().([]any)
		if !isArray || len(found) > page {
			return nil, 0, s.lanes.Refuse(reading, false)
		}
		before = ""
		for _, each := range found {
			entry, previous, sound := journalEntry(each)
			if !sound {
				damaged++
			} else {
				entries = append(entries, entry)
			}
			before = previous
		}
		if len(found) < page {
			break
		}
		most -= page
	}
	slices.Reverse(entries)
	return entries, damaged, nil
}

// journalEntry reads an entry of the stream: its number and its fields. previous is the
// number before, the last where a next page can begin; empty if there is none.
func journalEntry(reply any) (entry admin.JournalEntry, previous string, sound bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return entry, "", false
	}
	milliseconds, sequence, found := strings.Cut(lanes.Text(parts[0]), "-")
	ms, err := strconv.ParseUint(milliseconds, 10, 64)
	n, err2 := strconv.ParseUint(sequence, 10, 64)
	if !found || err != nil || err2 != nil {
		return entry, "", false
	}
	switch {
	case n > 0:
		previous = fmt.Sprintf("%d-%d", ms, n-1)
	case ms > 0:
		previous = fmt.Sprintf("%d-%d", ms-1, uint64(math.MaxUint64))
	}
	fields, _ := parts[1].([]any)
	if len(fields) != 2 || lanes.Text(fields[0]) != journalField || ms > uint64(store.MaxInstant)/1000 {
		return entry, previous, false
	}
	entry = admin.JournalEntry{At: time.UnixMilli(int64(ms)).UTC(), Text: lanes.Text(fields[1])}
	return entry, previous, admin.CheckJournalText(entry.Text) == nil
}
