// Package published has what publishers and followers of a configuration in a store share: the texts of an
// [admin.Tables], and a [Follower], which keeps the published configuration in force in a process.
package published

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// schema is the number of the form of records and heads. A program refuses those of a later form.
const schema = 1

// newer is the error of what a later program has written.
func newer(form int) error {
	return fmt.Errorf("the published configuration has form %d, and this program knows form %d; use a newer limitctl", form, schema)
}

// broken is the error of a text that no program of ours wrote.
func broken(what string, why any) error {
	return fmt.Errorf("%w: the %s of the published configuration is broken: %.200v", store.ErrForeign, what, why)
}

// Head says which version is in force.
type Head struct {
	Schema  int    `json:"schema"`
	Version int64  `json:"version"`
	Hash    string `json:"hash"` // of the version's text, see [Hash]
	// Oldest is the oldest version whose text is kept.
	Oldest int64 `json:"oldest"`
}

// versionsKept is the most versions that are kept, and bytesKept the most bytes of their records.
const (
	versionsKept = 50
	bytesKept    = 8 << 20
)

// TableOf returns the tables in which backend keeps published configurations.
func TableOf(backend store.Store) (*admin.Tables, error) {
	table, has := admin.TablesOf(backend)
	if !has || table.Private {
		return nil, store.Invalidf("this store keeps no configurations for other processes; use one in Redis or in a file")
	}
	return table, nil
}

// maxNumber is the greatest number of a version, which programs in other languages read exactly.
const maxNumber = 1 << 53

// readHead reads a head. An error is of a later form, or a [store.ErrForeign].
func readHead(text string) (h Head, err error) {
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return Head{}, broken("head", err)
	}
	switch {
	case h.Schema > schema:
		return h, newer(h.Schema)
	case h.Schema < 1 || h.Version < 1 || h.Oldest < 1 || h.Oldest > h.Version || h.Version > maxNumber || !isHash(h.Hash):
		return h, broken("head", "its numbers or its hash cannot be")
	}
	return h, nil
}

// Text returns the head as it is stored.
func (h Head) Text() string {
	h.Schema = schema
	return jsonText(h)
}

// jsonText returns v as JSON on one line, without escapes for HTML.
func jsonText(v any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.Encode(v) // structs of texts and numbers, which cannot fail
	return strings.TrimSuffix(text.String(), "\n")
}

// Hash identifies the text of a version.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func isHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

// Version is a published configuration.
type Version struct {
	Schema int       `json:"schema"`
	Number int64     `json:"version"`
	Hash   string    `json:"hash"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	// Of is the version that a rollback has brought back; 0 for others.
	Of int64 `json:"of,omitempty"`
	// Text is the configuration: what decides, without contexts.
	Text []byte `json:"-"`
}

// Record returns the version as it is stored: its fields as JSON on one line, and then its text, compressed.
func (v Version) Record() string {
	v.Schema, v.Hash = schema, Hash(v.Text)
	var record bytes.Buffer
	record.WriteString(jsonText(v) + "\n")
	w := gzip.NewWriter(&record)
	w.Write(v.Text) // a buffer takes everything
	w.Close()
	return record.String()
}

// readVersion reads a record in bounded memory, and checks its hash. An error is of a later form, or a
// [store.ErrForeign].
func readVersion(record string) (*Version, error) {
	line, compressed, found := strings.Cut(record, "\n")
	v := new(Version)
	if err := json.Unmarshal([]byte(line), v); err != nil || !found {
		return nil, broken("record", cmp.Or(err, errors.New("it is cut off")))
	}
	switch {
	case v.Schema > schema:
		return nil, newer(v.Schema)
	case v.Schema < 1 || v.Number < 1:
		return nil, broken("record", "it has no number")
	}
	r, err := gzip.NewReader(strings.NewReader(compressed))
	if err != nil {
		return nil, broken("record", err)
	}
	if v.Text, err = io.ReadAll(io.LimitReader(r, configfile.MaxSize+1)); err != nil {
		return nil, broken("record", err)
	}
	switch {
	case len(v.Text) > configfile.MaxSize:
		return nil, broken("record", "its text is too large")
	case v.Hash != Hash(v.Text):
		return nil, broken("record", "its text is another one than its hash says")
	}
	return v, nil
}

// Line is a line of the history.
type Line struct {
	Version int64  `json:"version"`
	Did     string `json:"did"` // publish or rollback
	Of      int64  `json:"of,omitempty"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
	Hash    string `json:"hash"`
	// Bytes is the size of the record.
	Bytes int `json:"bytes"`
	// At is when the store added the line.
	At time.Time `json:"-"`
}

// State is what a publisher knows of a store.
type State struct {
	// Was is the head as it is stored, and Head what it says; empty and zero if nothing was published.
	Was  string
	Head Head
	// Broken, a [store.ErrForeign], says why there is no Head although something was published.
	Broken error
	// Lines are those of the history, the oldest first, and Damaged how many of its entries are none.
	Lines   []Line
	Damaged int

	first, last int64 // whose texts are kept; without a Head, by the history
}

// Read reads the state.
func Read(ctx context.Context, table *admin.Tables) (*State, error) {
	s := new(State)
	entries, damaged, err := table.Lines(ctx, admin.HistoryList, admin.HistoryList.Kept())
	if err != nil {
		return nil, err
	}
	s.Damaged = damaged
	for _, entry := range entries {
		line := Line{}
		if err := json.Unmarshal([]byte(entry.Text), &line); err != nil || line.Version < 1 || line.Version > maxNumber || line.Bytes < 0 {
			s.Damaged++
			continue
		}
		line.At = entry.At
		s.Lines = append(s.Lines, line)
	}
	if s.Was, err = table.Value(ctx, admin.ConfigTable, ""); err == nil && s.Was != "" {
		s.Head, err = readHead(s.Was)
	}
	if err == nil && s.Was != "" {
		s.first, s.last = s.Head.Oldest, s.Head.Version
		return s, nil
	}
	s.Head = Head{}
	for i := range s.Lines {
		s.last = max(s.last, s.Lines[i].Version)
	}
	s.first, _ = s.oldest(s.last, 0)
	if err == nil && s.last > 0 {
		err = broken("head", "it is missing")
	}
	if foreign, is := errors.AsType[*store.ForeignError](err); is {
		err = broken("head", fmt.Sprintf("%q holds %s", foreign.StoreKey, foreign.Holds))
	}
	if errors.Is(err, store.ErrForeign) {
		s.Broken, err = err, nil
	}
	return s, err
}

// InForce returns the version in force. An error is [ErrNothing], or says that it is not known which one it is.
func (s *State) InForce() (int64, error) {
	switch {
	case s.Broken != nil:
		return 0, fmt.Errorf("%w; `limitctl config history` shows the versions that `limitctl config rollback N` brings back", s.Broken)
	case s.Was == "":
		return 0, ErrNothing
	}
	return s.Head.Version, nil
}

// Kept reports whether the text of a version is kept.
func (s *State) Kept(number int64) bool { return s.first <= number && number <= s.last }

// Before returns the version that was in force before the one that is; 0 for none that is known.
func (s *State) Before() int64 {
	at := slices.IndexFunc(s.Lines, func(l Line) bool { return l.Version == s.Head.Version })
	switch {
	case at > 0:
		return s.Lines[at-1].Version
	case s.Head.Version > s.Head.Oldest:
		return s.Head.Version - 1
	}
	return 0
}

// NextNumber returns the number of the next version. The numbers of a store that lost its head go on.
func (s *State) NextNumber() int64 {
	number := s.Head.Version
	for i := range s.Lines {
		number = max(number, s.Lines[i].Version)
	}
	return number + 1
}

// Next returns the change that puts a version with a new number in force. It completes v.
func (s *State) Next(v *Version) *admin.Change {
	v.Number, v.Hash = s.NextNumber(), Hash(v.Text)
	record := v.Record()
	line := Line{Version: v.Number, Did: "publish", Of: v.Of, By: v.By, Reason: v.Reason, Hash: v.Hash, Bytes: len(record)}
	if v.Of != 0 {
		line.Did = "rollback"
	}
	head := Head{Version: v.Number, Hash: v.Hash}
	var drop []int64
	head.Oldest, drop = s.oldest(v.Number, len(record))
	c := &admin.Change{Table: admin.ConfigTable, What: "publication", Was: s.Was, Line: jsonText(line),
		Set: []admin.TableRecord{{Name: strconv.FormatInt(v.Number, 10), Value: record}, {Value: head.Text()}}}
	for _, number := range drop {
		c.Drop = append(c.Drop, strconv.FormatInt(number, 10))
	}
	return c
}

// oldest returns the oldest version to keep beside one of so many bytes, 0 for those of its line, and those to drop.
func (s *State) oldest(number int64, size int) (oldest int64, drop []int64) {
	sizes := map[int64]int{}
	before := cmp.Or(s.Head.Oldest, number)
	for i := range s.Lines {
		sizes[s.Lines[i].Version] = s.Lines[i].Bytes
		if s.Head.Oldest == 0 { // nobody knows what was dropped
			before = min(before, s.Lines[i].Version)
		}
	}
	size = cmp.Or(size, sizes[number])
	for oldest = number; oldest > before && number-oldest < versionsKept-1; oldest-- {
		if size += cmp.Or(sizes[oldest-1], admin.MaxConfigRecord); size > bytesKept {
			break
		}
	}
	for n := max(before, oldest-int64(admin.HistoryList.Kept())); n < oldest; n++ {
		drop = append(drop, n)
	}
	return oldest, drop
}

// Fetch returns a version. It is a [store.ErrInvalid] if the store does not keep it, and lists those that it keeps.
func (s *State) Fetch(ctx context.Context, table *admin.Tables, number int64) (*Version, error) {
	record, err := table.Value(ctx, admin.ConfigTable, strconv.FormatInt(number, 10))
	switch {
	case err != nil:
		return nil, err
	case record == "" && s.last == 0:
		return nil, cmp.Or(s.Broken, ErrNothing)
	case record == "":
		return nil, store.Invalidf("version %d is not kept; versions %d to %d are", number, s.first, s.last)
	}
	v, err := readVersion(record)
	if err == nil && v.Number != number {
		err = broken("record", fmt.Sprintf("version %d has the number %d", number, v.Number))
	}
	return v, err
}

// ErrNothing: nothing was published to the store yet.
var ErrNothing = store.Invalidf("no configuration was published to this store; publish one with `limitctl config publish FILE`")
