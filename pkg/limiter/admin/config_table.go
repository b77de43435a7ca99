package admin

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ConfigTable keeps the configurations that were published to a store, separate from its limits: numbered versions, a
// head that says which of them is in force, a history, and reports of the processes that follow them. The store does
// not interpret the texts, except for comparing heads.
//
// The stores in Redis and in a file have one; a store in memory has none, because no other process could read it.
// [ConfigTableOf] finds it. Everybody who can write to the store can write to it, so do not trust what you read.
type ConfigTable interface {
	// ConfigHead returns the head; it is empty if nothing was ever published. It is one small read.
	ConfigHead(ctx context.Context) (string, error)
	// ConfigVersion returns the record of a version; it is empty if the store does not keep the version.
	ConfigVersion(ctx context.Context, number int64) (string, error)
	// ConfigHistory returns the latest lines of the history, at most most, the oldest first. damaged is the number of
	// entries among them that PublishConfig did not write.
	ConfigHistory(ctx context.Context, most int) (lines []JournalEntry, damaged int, err error)
	// PublishConfig makes a change at one instant. done is false, and nothing was changed, if the head is no longer
	// c.Was. A value that ConfigHead finds foreign counts as no head, and is replaced. After a [store.ErrOutcomeUnknown]
	// the change may have been made.
	PublishConfig(ctx context.Context, c ConfigChange) (done bool, err error)
	// ReportConfig keeps the report of a process in a place for a while, unless the place has the report of another
	// process, which differs in its ID: then free is false.
	ReportConfig(ctx context.Context, r ConfigReport) (free bool, err error)
	// ConfigReports returns the reports that have not ended, with what they have left. It leaves out what ReportConfig
	// did not write.
	ConfigReports(ctx context.Context) ([]ConfigReport, error)
}

// Bounds of a [ConfigTable].
const (
	// MaxConfigHead is the most bytes of a head, and MaxConfigRecord of the record of a version.
	MaxConfigHead   = 4 << 10
	MaxConfigRecord = 1<<20 + 64<<10
	// ConfigVersionsKept is the most versions that are kept, and ConfigBytesKept the most bytes of their records.
	ConfigVersionsKept = 50
	ConfigBytesKept    = 8 << 20
	// ConfigHistoryKept is the number of lines of the history, each of at most [MaxJournalText] bytes.
	ConfigHistoryKept = 1000
	// ConfigPlaces is the number of places for reports. Places count from 0.
	ConfigPlaces = 500
	// MaxConfigReport is the most bytes of a report, and ConfigIDSize the size of the ID of a process.
	MaxConfigReport = 1 << 10
	ConfigIDSize    = 16
	// MaxConfigReportTime is the longest time for which a report is kept.
	MaxConfigReportTime = time.Hour
)

// ConfigChange is a change of what is published.
type ConfigChange struct {
	// Was is the head for which the change was made, and Head the one afterwards.
	Was, Head string
	// Version is the number of a new version, and Record its record; 0 and empty for a change of the head alone.
	Version int64
	Record  string
	// Line is added to the history.
	Line string
	// Drop are the versions that are no longer kept.
	Drop []int64
}

// Check is for stores. It returns a [store.ErrInvalid] if the change cannot be made.
func (c *ConfigChange) Check() error {
	switch {
	case c.Head == "" || len(c.Head) > MaxConfigHead:
		return store.Invalidf("a head of %d bytes for the published configuration; it can have 1 to %d", len(c.Head), MaxConfigHead)
	case c.Version < 0 || (c.Version == 0) != (c.Record == ""):
		return store.Invalidf("version %d of the published configuration with %d bytes; versions count from 1, and have a record",
			c.Version, len(c.Record))
	case len(c.Record) > MaxConfigRecord:
		return store.Invalidf("a record of %d bytes for the published configuration; it can have at most %d", len(c.Record),
			MaxConfigRecord)
	case len(c.Drop) > ConfigHistoryKept:
		return store.Invalidf("%d versions to drop at once; at most %d can be", len(c.Drop), ConfigHistoryKept)
	}
	return CheckJournalText(c.Line)
}

// ConfigReport is what a process reports about the configuration that it has in force.
type ConfigReport struct {
	// Place is from 0 to below [ConfigPlaces].
	Place int
	// ID identifies the process: [ConfigIDSize] letters or digits.
	ID string
	// Text is valid UTF-8.
	Text string
	// Left is how long the report is kept, in whole milliseconds.
	Left time.Duration
}

// Check is for stores. It returns a [store.ErrInvalid] if the report cannot be kept.
func (r *ConfigReport) Check() error {
	switch {
	case r.Place < 0 || r.Place >= ConfigPlaces:
		return store.Invalidf("place %d for the report of a process; places are from 0 to %d", r.Place, ConfigPlaces-1)
	case !isConfigID(r.ID):
		return store.Invalidf("%.40q is not the ID of a process, which has %d letters or digits", r.ID, ConfigIDSize)
	case r.Text == "" || len(r.ID)+len(r.Text) > MaxConfigReport || !utf8.ValidString(r.Text):
		return store.Invalidf("a report of %d bytes; it has to be valid UTF-8 of 1 to %d", len(r.Text), MaxConfigReport-ConfigIDSize)
	case r.Left < time.Millisecond || r.Left > MaxConfigReportTime:
		return store.Invalidf("a report that is kept for %s; it can be 1ms to %s", r.Left, MaxConfigReportTime)
	}
	return nil
}

func isConfigID(text string) bool {
	return len(text) == ConfigIDSize && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

// KeptReport is the form in which stores keep a report: the ID, and then the text.
func (r *ConfigReport) KeptReport() string { return r.ID + r.Text }

// ReadConfigReport is for stores: it reads the form of [ConfigReport.KeptReport]. sound is false for anything else.
func ReadConfigReport(place int, kept string, left time.Duration) (r ConfigReport, sound bool) {
	if len(kept) <= ConfigIDSize || left < 0 { // a key that does not expire has a negative time left
		return r, false
	}
	r = ConfigReport{Place: place, ID: kept[:ConfigIDSize], Text: kept[ConfigIDSize:], Left: max(left, time.Millisecond)}
	return r, r.Check() == nil
}

// ConfigTableOf returns the table of backend, or of the store that it wraps; see [DenialTableOf].
func ConfigTableOf(backend store.Store) (table ConfigTable, has bool) {
	return store.As[ConfigTable](backend)
}
