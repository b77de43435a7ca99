package backup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/files"
)

// Folder is a directory of backups.
type Folder struct {
	Path string
	// Entries and Open give access to the directory and its files.
	Entries func(path string) ([]fs.DirEntry, error)
	Open    func(path string) (files.File, error)
}

// File is a file in a folder that can be a backup by its name.
type File struct {
	Name, Path string
	Size       int64
	Changed    time.Time // the time of the last write
}

// Name returns the name of the backup of a process at that time. The names sort by time.
func Name(at time.Time, process string) string {
	return at.UTC().Format("20060102T150405.000Z") + "-" + process + ".jsonl"
}

// isBackup reports whether a file can be a backup by its name.
func isBackup(name string) bool { return strings.HasSuffix(strings.TrimSuffix(name, ".gz"), ".jsonl") }

// List returns the files of the folder, the newest first. A missing folder is empty.
func (f *Folder) List() ([]File, error) {
	entries, err := f.Entries(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []File
	for _, entry := range entries {
		if !isBackup(entry.Name()) || !entry.Type().IsRegular() {
			continue
		}
		if info, err := entry.Info(); err == nil { // otherwise it has been removed
			found = append(found, File{entry.Name(), filepath.Join(f.Path, entry.Name()), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(found, func(a, b File) int { return strings.Compare(b.Name, a.Name) })
	return found, nil
}

// Find returns the path of the backup of that name: the name in the audit, or without its ending.
func (f *Folder) Find(name string) (path string, found bool) {
	if name != filepath.Base(name) {
		return "", false
	}
	listed, err := f.List()
	if err != nil {
		return "", false
	}
	for _, file := range listed {
		plain := strings.TrimSuffix(file.Name, ".gz")
		if name == file.Name || name == plain || name == strings.TrimSuffix(plain, ".jsonl") {
			return file.Path, true
		}
	}
	return "", false
}

// Header reads the header of a backup.
func (f *Folder) Header(path string) (Header, error) {
	file, err := f.Open(path)
	if err != nil {
		return Header{}, err
	}
	defer file.Close()
	return headerFrom(file)
}

// Survey surveys a backup; see [look].
func (f *Folder) Survey(path string) (*Survey, error) {
	file, err := f.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return look(file)
}
