package auditlog

import (
	"encoding/json"

	"github.com/limitctl/limitctl/internal/files"
)

// Writer writes the entries of a run. It is opened before the run changes anything, so that the changes can be
// recorded.
type Writer interface {
	// Write writes an entry. It may cut texts.
	Write(e *Entry) error
	// Close closes the writer. It is called once.
	Close() error
}

// File is a Writer to the end of a file. Several processes may write to one file.
type File struct{ file files.File }

// NewFile returns a File for a file that is open to append and to read.
func NewFile(file files.File) *File { return &File{file} }

// Write implements [Writer]. It is a single write, so that lines of several runs stay whole.
func (f *File) Write(e *Entry) error {
	e.bound()
	e.Source, e.Undone = "", nil
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if !f.endsLine() {
		text = append([]byte{'\n'}, text...)
	}
	_, err = f.file.Write(text)
	return err
}

// Close implements [Writer].
func (f *File) Close() error { return f.file.Close() }

// endsLine reports whether the file ends with a complete line. After a full disk it can end with half a line, and
// the next entry would be lost with it.
func (f *File) endsLine() bool {
	info, err := f.file.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var last [1]byte
	_, err = f.file.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] == '\n'
}
