package redisstore

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.ConfigTable = (*Store)(nil)

// configKey returns a key of the published configurations. All share a hash tag, so that a Cluster has them in one
// slot. They never expire, except for reports.
func (s *Store) configKey(rest string) string { return string(s.lanes.Own) + "!{config}:" + rest }

func (s *Store) configVersionKey(number int64) string {
	return s.configKey("v:" + strconv.FormatInt(number, 10))
}

func (s *Store) configReportKey(place int) string {
	return s.configKey("process:" + strconv.Itoa(place))
}

const (
	readingConfig    = "read of the published configuration"
	publishingConfig = "publication of a configuration"
	reportingConfig  = "report about the configuration"
)

// ConfigHead implements [admin.ConfigTable] by a GETRANGE, which bounds what a foreign value takes.
func (s *Store) ConfigHead(ctx context.Context) (string, error) {
	return s.readConfig(ctx, s.configKey("head"), admin.MaxConfigHead, "the head of published configurations")
}

// ConfigVersion implements [admin.ConfigTable] in the same way.
func (s *Store) ConfigVersion(ctx context.Context, number int64) (string, error) {
	return s.readConfig(ctx, s.configVersionKey(number), admin.MaxConfigRecord, "a published configuration")
}

// readConfig reads a key. A longer value than most bytes is foreign.
func (s *Store) readConfig(ctx context.Context, key string, most int, what string) (string, error) {
	if err := s.lanes.Check(); err != nil {
		return "", err
	}
	foreign := &store.ForeignError{StoreKey: key, Holds: "a value that is not " + what}
	cmd, err := s.lanes.Read(ctx, key, "getrange", key, 0, most)
	if redisserver.IsErrorReply(err, "WRONGTYPE") {
		return "", foreign
	} else if err != nil {
		return "", s.lanes.Explain(err, readingConfig, false, []string{key})
	}
	text, err := cmd.Text()
	if err != nil {
		return "", s.lanes.Refuse(readingConfig, false)
	}
	if len(text) > most {
		return "", foreign
	}
	return text, nil
}

// ConfigHistory implements [admin.ConfigTable] by a stream, as the journal is one.
func (s *Store) ConfigHistory(ctx context.Context, most int) ([]admin.JournalEntry, int, error) {
	foreign := func(key string) error {
		return &store.ForeignError{StoreKey: key, Holds: "a value that is not a history of configurations"}
	}
	return s.readStream(ctx, s.configKey("history"), min(most, admin.ConfigHistoryKept), "read of the history", foreign)
}

// PublishConfig implements [admin.ConfigTable] in one script call.
func (s *Store) PublishConfig(ctx context.Context, c admin.ConfigChange) (done bool, err error) {
	if err := cmp.Or(s.lanes.Check(), c.Check()); err != nil {
		return false, err
	}
	keys := []string{s.configKey("head"), s.configKey("history"), s.configVersionKey(c.Version)}
	for _, number := range c.Drop {
		keys = append(keys, s.configVersionKey(number))
	}
	arguments := []any{c.Was, c.Head, c.Record, c.Line, admin.ConfigHistoryKept}
	cmd, err := s.lanes.Run(ctx, true, lua.PublishConfig, keys, arguments)
	if err != nil {
		return false, s.lanes.Explain(err, publishingConfig, true, keys)
	}
	n, err := cmd.Int64()
	if err != nil {
		return false, s.lanes.Refuse(publishingConfig, true)
	}
	return n == 1, nil
}

// ReportConfig implements [admin.ConfigTable] with a GETRANGE and a SET, so that a process needs no other right. Of two
// processes that take a place at once, SET NX lets one have it.
func (s *Store) ReportConfig(ctx context.Context, r admin.ConfigReport) (free bool, err error) {
	if err := cmp.Or(s.lanes.Check(), r.Check()); err != nil {
		return false, err
	}
	key := s.configReportKey(r.Place)
	held, err := s.readConfig(ctx, key, admin.MaxConfigReport, "the report of a process")
	switch {
	case err != nil:
		return false, err
	case held != "" && (len(held) <= admin.ConfigIDSize || held[:admin.ConfigIDSize] != r.ID):
		return false, nil
	}
	words := []any{"set", key, r.KeptReport(), "px", r.Left.Milliseconds()}
	if held == "" {
		words = append(words, "nx")
	}
	switch _, err := s.lanes.Write(ctx, key, false, words...); {
	case errors.Is(err, redis.Nil): // another process was first
		return false, nil
	case err != nil:
		return false, s.lanes.Explain(err, reportingConfig, true, []string{key})
	}
	return true, nil
}

// ConfigReports implements [admin.ConfigTable] in one script call, which looks at each place.
func (s *Store) ConfigReports(ctx context.Context) (reports []admin.ConfigReport, err error) {
	if err := s.lanes.Check(); err != nil {
		return nil, err
	}
	keys := make([]string, admin.ConfigPlaces)
	for place := range keys {
		keys[place] = s.configReportKey(place)
	}
	reply, err := s.lanes.Array(ctx, false, lua.ConfigReports, keys, nil, 3)
	if err != nil {
		return nil, s.lanes.Explain(err, readingConfig, false, keys)
	}
	for ; len(reply) >= 3; reply = reply[3:] {
		left := time.Duration(lanes.Integer(reply[2])) * time.Millisecond
		if r, sound := admin.ReadConfigReport(int(lanes.Integer(reply[0])), lanes.Text(reply[1]), left); sound {
			reports = append(reports, r)
		}
	}
	return reports, nil
}
