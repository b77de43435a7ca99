package filestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var _ admin.ConfigTable = (*Store)(nil)

// configTable has the head, the versions and the reports of processes. Only reports end.
var configTable = sideTable{name: "published", of: "published configurations", create: `CREATE TABLE IF NOT EXISTS published (
	prefix TEXT    NOT NULL,
	part   TEXT    NOT NULL, -- head, v:NUMBER or process:PLACE
	ends   INTEGER NOT NULL, -- µs since the epoch; 0 for never; before the record, which can be large and would be read first
	record BLOB    NOT NULL,
	PRIMARY KEY (prefix, part)
)`}

// configHistoryTable has the history.
var configHistoryTable = textTable("published_history", "the history of configurations")

const configHead, configVersion, configProcess = "head", "v:", "process:"

// configPart reads a part at now; it is empty if there is none. A longer one than most bytes is foreign.
func (s *Store) configPart(ctx context.Context, tx *sql.Conn, part string, most int, now store.Instant) (string, error) {
	var record []byte
	err := tx.QueryRowContext(ctx, `SELECT substr(CAST(record AS BLOB), 1, ?) FROM published
		WHERE prefix = ? AND part = ? AND (ends = 0 OR ends > ?)`, most+1, s.prefix, part, int64(now)).Scan(&record)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err == nil && len(record) > most:
		return "", &store.ForeignError{StoreKey: s.path,
			Holds: fmt.Sprintf("a published configuration (%s) that limitctl did not write", part)}
	}
	return string(record), err
}

func (s *Store) setConfigPart(ctx context.Context, tx *sql.Conn, part, record string, ends store.Instant) error {
	_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO published (prefix, part, record, ends) VALUES (?, ?, ?, ?)", s.prefix, part,
		[]byte(record), int64(ends))
	return err
}

// ConfigHead implements [admin.ConfigTable].
func (s *Store) ConfigHead(ctx context.Context) (string, error) {
	return s.readConfig(ctx, configHead, admin.MaxConfigHead)
}

// ConfigVersion implements [admin.ConfigTable].
func (s *Store) ConfigVersion(ctx context.Context, number int64) (string, error) {
	return s.readConfig(ctx, configVersion+strconv.FormatInt(number, 10), admin.MaxConfigRecord)
}

func (s *Store) readConfig(ctx context.Context, part string, most int) (record string, err error) {
	err = s.readTable(ctx, configTable, func(tx *sql.Conn, now store.Instant) (err error) {
		record, err = s.configPart(ctx, tx, part, most, now)
		return err
	})
	return record, err
}

// ConfigHistory implements [admin.ConfigTable].
func (s *Store) ConfigHistory(ctx context.Context, most int) ([]admin.JournalEntry, int, error) {
	return s.readTexts(ctx, configHistoryTable, max(0, min(most, admin.ConfigHistoryKept)))
}

// PublishConfig implements [admin.ConfigTable] in one transaction.
func (s *Store) PublishConfig(ctx context.Context, c admin.ConfigChange) (done bool, err error) {
	if err := c.Check(); err != nil {
		return false, err
	}
	err = s.changeTable(ctx, configTable, func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		head, err := s.configPart(ctx, tx, configHead, admin.MaxConfigHead, now)
		if errors.Is(err, store.ErrForeign) { // it is replaced
			head, err = "", nil
		}
		if err != nil || head != c.Was {
			return err
		}
		if err := configHistoryTable.make(ctx, tx); err != nil {
			return err
		}
		if err := s.appendText(ctx, tx, configHistoryTable, now, c.Line, admin.ConfigHistoryKept); err != nil {
			return err
		}
		if c.Version > 0 {
			if err := s.setConfigPart(ctx, tx, configVersion+strconv.FormatInt(c.Version, 10), c.Record, 0); err != nil {
				return err
			}
		}
		for _, number := range c.Drop {
			if _, err := tx.ExecContext(ctx, "DELETE FROM published WHERE prefix = ? AND part = ?", s.prefix,
				configVersion+strconv.FormatInt(number, 10)); err != nil {
				return err
			}
		}
		done = true
		return s.setConfigPart(ctx, tx, configHead, c.Head, 0)
	})
	if err != nil {
		return false, err
	}
	return done, nil
}

// ReportConfig implements [admin.ConfigTable] in one transaction, which also removes the reports that have ended.
func (s *Store) ReportConfig(ctx context.Context, r admin.ConfigReport) (free bool, err error) {
	if err := r.Check(); err != nil {
		return false, err
	}
	err = s.changeTable(ctx, configTable, func(ctx context.Context, tx *sql.Conn, now store.Instant) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM published WHERE ends > 0 AND ends <= ?", int64(now)); err != nil { // of any prefix
			return err
		}
		part := configProcess + strconv.Itoa(r.Place)
		held, err := s.configPart(ctx, tx, part, admin.MaxConfigReport, now)
		if err != nil || held != "" && !strings.HasPrefix(held, r.ID) {
			return err
		}
		free = true
		return s.setConfigPart(ctx, tx, part, r.KeptReport(), now+store.Instant(r.Left.Microseconds()))
	})
	if err != nil {
		return false, err
	}
	return free, nil
}

// ConfigReports implements [admin.ConfigTable].
func (s *Store) ConfigReports(ctx context.Context) (reports []admin.ConfigReport, err error) {
	err = s.readTable(ctx, configTable, func(tx *sql.Conn, now store.Instant) error {
		reports = nil
		rows, err := tx.QueryContext(ctx, `SELECT part, substr(CAST(record AS BLOB), 1, ?),
			CASE typeof(ends) WHEN 'integer' THEN ends ELSE 0 END
			FROM published WHERE prefix = ? AND part LIKE 'process:%' AND ends > ? LIMIT ?`,
			admin.MaxConfigReport+1, s.prefix, int64(now), admin.ConfigPlaces)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var part string
			var record []byte
			var ends store.Instant
			if err := rows.Scan(&part, &record, &ends); err != nil {
				return err
			}
			place, err := strconv.Atoi(strings.TrimPrefix(part, configProcess))
			left := time.Duration(ends-now) * time.Microsecond
			if r, sound := admin.ReadConfigReport(place, string(record), left); err == nil && sound {
				reports = append(reports, r)
			}
		}
		return rows.Err()
	})
	return reports, err
}
