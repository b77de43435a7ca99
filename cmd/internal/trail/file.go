package trail

import (
	"encoding/json"

	"github.com/limitctl/limitctl/cmd/internal/files"
)

// Writer takes the entries of a run. It is opened before the run changes anything, so
// that what the run does can be written down.
type Writer interface {
	// Write writes an entry, whose texts it may cut.
	Write(e *Entry) error
	// Close releases what the writer holds. It is called once.
	Close() error
}

// File is a Writer to the end of a file. Several processes may write to one file.
type File struct{ file files.File }

// NewFile returns a File that writes to a file which was opened to append and to read.
func NewFile(file files.File) *File { return &File{file} }

// Write implements [Writer]. It is a single write, so that lines of several runs stay whole.
func (f *File) Write(e *Entry) error {
	e.bound()
	e.Source = ""
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

// endsLine reports whether the file ends with a whole line. If the disk was full, it may
// end with half a line, and an entry that is added to this would be lost.
func (f *File) endsLine() bool {
	info, err := f.file.Stat()
	if err != nil || info.Size() == 0 {
		return true
	}
	var last [1]byte
	_, err = f.file.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] == '\n'
}
