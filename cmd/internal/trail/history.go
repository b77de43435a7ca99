package trail

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/internal/lines"
)

const (
	// MaxRuns is how many runs are read unless the caller says how many, so that a trail
	// of any size is read in bounded memory.
	MaxRuns = 10_000
	// MaxSize is how many bytes of a trail are read, from its end: some hundred thousand
	// runs.
	MaxSize = 256 << 20
	// keptBad is how many of the lines that are not entries are kept.
	keptBad = 5
)

// History is what a trail holds.
type History struct {
	Runs  []*Entry // the latest runs, in the order of their lines
	Total int      // how many runs there are, those that are left out included
	Bad   int      // how many lines are not entries and were left out
	// FirstBad are the first of the bad lines.
	FirstBad []BadLine
}

// BadLine is a line that is not an entry.
type BadLine struct {
	Number int64 // from 1, in what was read
	Reason error
}

// SkipOld goes to where the last [MaxSize] bytes of a trail begin, and returns the size
// of the whole file. skipped tells whether there is more before. Only a fault of the file
// system or of a disk makes a trail so large.
func SkipOld(file files.File) (size int64, skipped bool, err error) {
	info, err := file.Stat()
	if err != nil || info.Size() <= MaxSize {
		return 0, false, err
	}
	_, err = file.Seek(-MaxSize, io.SeekEnd)
	return info.Size(), true, err
}

// Read reads the latest runs of a trail, at most that many; 0 means [MaxRuns]. Lines that
// are not entries, or far too long, are left out.
func Read(ctx context.Context, in io.Reader, most int) (*History, error) {
	most = cmp.Or(most, MaxRuns)
	h := &History{Runs: []*Entry{}}
	reader := lines.NewReader(in, maxLine)
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			h.Runs = h.Runs[max(0, len(h.Runs)-most):]
			return h, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		entry := new(Entry)
		if reason := entry.read(&line); reason != nil { // the disk was full, say
			if h.Bad++; h.Bad <= keptBad {
				h.FirstBad = append(h.FirstBad, BadLine{line.Number, reason})
			}
			continue
		}
		if h.Total++; len(h.Runs) == 2*most { // the latest are kept
			h.Runs = append(h.Runs[:0], h.Runs[most:]...)
			clear(h.Runs[most : 2*most])
		}
		h.Runs = append(h.Runs, entry)
	}
}
