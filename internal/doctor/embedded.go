package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Embedded examines a store without a server. It returns nil for any other.
func Embedded(ctx context.Context, backend store.Store) (*Report, error) {
	report, err := embedded(ctx, backend)
	if report == nil || err != nil || !report.Reached {
		return report, err
	}
	found, err := examineTables(ctx, backend)
	report.Add(found...)
	return report, err
}

func embedded(ctx context.Context, backend store.Store) (*Report, error) {
	switch backend := backend.(type) {
	case *memorystore.Store:
		return &Report{Reached: true, Findings: []Finding{{Check: "reachable", Status: OK,
			Summary: "in the memory of this process: it starts empty and ends with the process"}}}, nil
	case *filestore.Store:
		health, err := backend.Health(ctx)
		report := &Report{Reached: err == nil, Findings: judgeFile(health, err)}
		return report, err
	}
	return nil, nil
}

// muchFree is the free space in a file from which on the report mentions it.
const muchFree = 16 << 20

const busyAdvice = "find out who holds the file, for example with fuser; wait for them to end, or longer (--timeout)"

func judgeFile(h filestore.Health, err error) []Finding {
	data := map[string]any{"path": h.Path, "exists": h.Exists, "bytes": h.Bytes}
	path := output.Printable(h.Path)
	reach := Finding{Check: "reachable", Status: OK, Data: data}
	switch {
	case err != nil:
		reach.Status, reach.Summary = Fail, oneLine(err)
		reach.Advice = "check the file's path and rights; a file that is damaged or not limitctl's can be moved away, which forgets the " +
			"usage in it"
		if errors.Is(err, store.ErrUnavailable) {
			reach.Advice = busyAdvice
		}
		return []Finding{reach}
	case !h.Exists:
		reach.Summary = path + " does not exist yet; the first take creates it"
		return []Finding{reach}
	}
	reach.Summary = fmt.Sprintf("%s, %s", path, output.Bytes(h.Bytes))
	file := Finding{Check: "file", Status: OK, Summary: "sound, writable, journal mode " + h.JournalMode,
		Data: map[string]any{"journal_mode": h.JournalMode, "damage": h.Damage, "writable": h.NotWritable == nil,
			"free_bytes": h.Free, "shrinks": h.Shrinks}}
	switch {
	case h.Damage != "":
		file.Status, file.Summary = Fail, "damaged: "+h.Damage
		file.Advice = "move the file away, which forgets the usage in it, or repair it with sqlite3 FILE .recover"
	case h.NotWritable != nil:
		file.Status, file.Summary = Fail, "cannot be written: "+oneLine(h.NotWritable)
		file.Advice = "give the user the right to write the file and its directory"
		if errors.Is(h.NotWritable, store.ErrUnavailable) {
			file.Advice = busyAdvice
		}
	case h.JournalMode != "wal":
		file.Status, file.Summary = Warn, "journal mode "+h.JournalMode+": readers and a writer wait for each other"
		file.Advice = "sqlite3 FILE 'PRAGMA journal_mode = wal' while nobody uses it; on a network file system it cannot be"
	case !h.Shrinks && h.Free >= muchFree && h.Free > h.Bytes/2:
		file.Status, file.Summary = Warn, output.Bytes(h.Free)+
			" of it hold nothing; an earlier limitctl made it, so it keeps them for new keys"
		file.Advice = "to shrink it, while nobody uses it: sqlite3 FILE 'PRAGMA auto_vacuum = incremental; VACUUM'; it needs as " +
			"much free disk " +
			"as is in use"
	}
	keys := Finding{Check: "keys", Status: OK, Summary: fmt.Sprintf("%s, and %d expired, which go as others are written",
		output.Plural(h.Keys-h.Lapsed, "limit"), h.Lapsed),
		Data: map[string]any{"limits": h.Keys - h.Lapsed, "lapsed": h.Lapsed}}
	return []Finding{reach, file, keys}
}
