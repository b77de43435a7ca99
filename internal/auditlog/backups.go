package auditlog

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/output"
)

// Kept is a backup on this machine, as the file says it and the run that made it.
type Kept struct {
	Name      string     `json:"name"`
	Path      string     `json:"path"`
	Time      *time.Time `json:"time"` // null if it cannot be read
	AgeMS     *int64     `json:"age_ms"`
	User      string     `json:"user,omitempty"` // of the run that made it, as far as the audit log knows
	Run       string     `json:"run,omitempty"`  // its name
	Command   string     `json:"command,omitempty"`
	Selection string     `json:"selection,omitempty"`
	Context   string     `json:"context,omitempty"`
	Store     string     `json:"store,omitempty"`
	StoreID   string     `json:"store_id,omitempty"`
	Prefix    string     `json:"prefix,omitempty"`
	Keys      *int64     `json:"keys"` // as many as the run selected; null if the audit log does not know
	Bytes     int64      `json:"bytes"`
	Error     string     `json:"error,omitempty"` // why it cannot be read
	// Made is when it was made, or last written to if that is unknown.
	Made time.Time `json:"-"`
	// Unended: the audit log has no end of its run.
	Unended bool `json:"-"`
}

// settled is how old a backup is at least that nothing writes: a reset that is not in the audit yet may be scanning.
const settled = time.Hour

// Kept returns the backups of a folder by their headers, the newest first. describe puts an error into words.
func (h *History) Kept(folder *backup.Folder, now time.Time, describe func(error) string) ([]Kept, error) {
	files, err := folder.List()
	if err != nil {
		return nil, err
	}
	makers := map[string]*Entry{}
	for _, e := range h.Runs {
		makers[e.Backup] = e
	}
	all := make([]Kept, len(files))
	for i, file := range files {
		k := &all[i]
		*k = Kept{Name: file.Name, Path: file.Path, Bytes: file.Size, Made: file.Changed}
		s, err := backup.ReadHeader(file.Path)
		if err != nil {
			k.Error = describe(err)
		} else {
			age := max(0, now.Sub(s.Time)).Milliseconds()
			k.Made, k.Time, k.AgeMS = s.Time, &s.Time, &age
			k.Command, k.Selection, k.Context = s.Command, s.Selection, s.Context
			k.Store, k.StoreID, k.Prefix = s.Store, s.StoreID, s.Prefix
		}
		if run := makers[file.Path]; run != nil && (err != nil || run.MadeBackup(&s)) {
			k.User, k.Run, k.Keys, k.Unended = run.User, run.Run, &run.Matched, run.Outcome == Begun
		} else {
			k.Unended = now.Sub(file.Changed) < settled
		}
	}
	return all, nil
}

// BackupOf returns the header of the backup that a run made. It is nil if the file is not there any more or cannot be
// read, and there is an error if it is another run's.
func (e *Entry) BackupOf() (*backup.Header, error) {
	header, err := backup.ReadHeader(e.Backup)
	switch {
	case e.Backup == "" || err != nil:
		return nil, nil
	case !e.MadeBackup(&header):
		return nil, fmt.Errorf("%s is now the backup of another run", output.Printable(e.Backup))
	}
	return &header, nil
}

// MadeBackup reports whether a run made a backup, and not another run that wrote a file of the same name.
func (e *Entry) MadeBackup(h *backup.Header) bool {
	return h.Command == e.Command && h.Selection == e.Selection && !h.Time.After(e.Time)
}
