package backup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/lines"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// maxHeader is longer than any first line.
const maxHeader = 1 << 20

var errNoHeader = errors.New("its first line is not that of a backup")

// readLines reads the header into c and calls do with each line after it. The last one can be torn.
func (c *Contents) readLines(in io.Reader, do func(line *lines.Line) error) error {
	buffered := bufio.NewReaderSize(in, maxHeader)
	if err := c.readHeader(buffered); err != nil {
		return err
	}
	reader := lines.NewReader(buffered, maxLine)
	for {
		line, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		line.Number++ // the header is the first
		if err := do(&line); err != nil {
			return err
		}
	}
}

func (c *Contents) readHeader(in *bufio.Reader) error {
	text, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(text) == 0:
		return errors.New("it is empty, so it is not a backup")
	case errors.Is(err, bufio.ErrBufferFull): // the first line can be gigabytes long
		return errNoHeader
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	if json.Unmarshal(text, &c.Header) != nil || c.Version == 0 {
		return errNoHeader
	}
	if c.Version != version {
		return fmt.Errorf("it is a backup of version %d, and this limitctl knows version %d", c.Version, version)
	}
	return nil
}

// maxBatch is the size of the values, in bytes, at which a batch ends. A log of a million units has 10 MB, and five
// hundred of them are too much for one call of a server, or for the memory.
const maxBatch = 4 << 20

// Batch is some records with their limits.
type Batch struct {
	Records []admin.Record
	Limits  []store.Limit
	// Last is the line of the last record in the backup.
	Last int64
	// Unreached: the change that made the backup ended before it came to these records. It is false if that is not
	// known.
	Unreached bool
}

// Add adds a record with its limit.
func (b *Batch) Add(r admin.Record, limit store.Limit) {
	b.Records, b.Limits = append(b.Records, r), append(b.Limits, limit)
}

// Split calls do with parts of b of at most size records.
func (b *Batch) Split(size int, do func(Batch) error) error {
	for from := 0; from < len(b.Records); from += size {
		to := min(from+size, len(b.Records))
		if err := do(Batch{Records: b.Records[from:to], Limits: b.Limits[from:to]}); err != nil {
			return err
		}
	}
	return nil
}

// Each calls do with batches of the records of a backup, each key once in its last state. Amendments are known only
// after Check, and so is which records the change has not reached. A batch has at most size records, and fewer if they
// are large. The next one is read while do works.
func (c *Contents) Each(in io.Reader, size int, do func(Batch) error) error {
	batches, read, ended := make(chan Batch), make(chan error, 1), make(chan struct{})
	panics.Go(func() error {
		return c.batches(in, size, func(batch Batch) error {
			select {
			case batches <- batch:
				return nil
			case <-ended:
				return errEnded
			}
		})
	}, func(err error) {
		read <- err
		close(batches)
	})
	defer func() { // end the reader before the return
		close(ended)
		for range batches {
		}
	}()
	for batch := range batches {
		if err := do(batch); err != nil {
			return err
		}
	}
	return <-read
}

// errEnded ends the reading of a backup whose batches are no longer wanted.
var errEnded = errors.New("no more batches are wanted")

// batches calls give with the batches for Each.
func (c *Contents) batches(in io.Reader, size int, give func(Batch) error) error {
	var batch Batch
	bytes := 0
	flush := func(unreached bool) error { // and the next batch is of such records
		full := batch
		batch, bytes = Batch{Unreached: unreached}, 0
		if len(full.Records) == 0 {
			return nil
		}
		return give(full)
	}
	again := Contents{checked: c.checked}
	marked := c.Marked && c.Damaged == 0 // else a mark may be lost
	err := again.read(in, func(e *entry) error {
		if last, amended := c.amended[identityOf(&e.Record)]; amended && e.number != last || e.unchanged {
			return nil
		}
		if unreached := marked && e.number > c.begun && !e.amends; unreached != batch.Unreached {
			if err := flush(unreached); err != nil {
				return err
			}
		}
		batch.Add(e.Record, e.limit)
		batch.Last = e.number
		bytes += e.Size()
		if len(batch.Records) < size && bytes < maxBatch {
			return nil
		}
		return flush(batch.Unreached)
	})
	if err != nil {
		return err
	}
	return flush(false)
}

// Folder is a directory of backups.
type Folder struct{ Path string }

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
func isBackup(name string) bool { return strings.HasSuffix(name, ".jsonl") }

// List returns the files of the folder, the newest first. A missing folder is empty.
func (f *Folder) List() ([]File, error) {
	entries, err := files.List(f.Path)
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
		if name == file.Name || name == strings.TrimSuffix(file.Name, ".jsonl") {
			return file.Path, true
		}
	}
	return "", false
}

// ReadHeader reads the header of a backup.
func ReadHeader(path string) (Header, error) {
	file, err := files.Open(path)
	if err != nil {
		return Header{}, err
	}
	defer file.Close()
	var c Contents
	err = c.readHeader(bufio.NewReaderSize(file, maxHeader))
	return c.Header, err
}
