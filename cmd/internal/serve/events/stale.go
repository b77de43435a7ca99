package events

import "time"

// Stale says since when and why something of the store cannot be read or written.
type Stale struct {
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// Overrides reports why overrides cannot be read. The known ones apply until their ends.
func (l *Log) Overrides(err error) {
	l.fail(&l.overrides, "operators' overrides are out of date", err)
}

// OverridesRead reports that overrides can be read again.
func (l *Log) OverridesRead() { l.recover(&l.overrides, "operators' overrides are up to date again") }

// OverridesStale reports whether overrides cannot be read.
func (l *Log) OverridesStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overrides != nil
}

// Denials reports why denials cannot be written.
func (l *Log) Denials(err error) { l.fail(&l.denials, "denials cannot be recorded", err) }

// DenialsWritten reports that denials can be written again.
func (l *Log) DenialsWritten() { l.recover(&l.denials, "denials can be recorded again") }

func (l *Log) fail(what **Stale, message string, err error) {
	stale := &Stale{l.Now().UTC(), l.Describe(err)}
	l.mu.Lock()
	*what = stale
	l.mu.Unlock()
	l.Log.Warn(message, "error", stale.Error)
}

func (l *Log) recover(what **Stale, message string) {
	l.mu.Lock()
	stale := *what
	*what = nil
	l.mu.Unlock()
	if stale != nil {
		l.Log.Info(message, "lasted", l.Now().Sub(stale.Since).Round(time.Millisecond).String())
	}
}
