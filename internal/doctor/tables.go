package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// judgeTables judges whether overrides can be read, and whether all processes that report have the published version in
// force. An error means that the store stopped answering; a missing right is a finding.
func judgeTables(ctx context.Context, backend store.Store) (all []Finding, err error) {
	if tables, has := admin.TablesOf(backend); has {
		switch _, _, err := tables.Overrides(ctx); {
		case store.IsAway(err):
			return nil, err
		case err != nil:
			all = append(all, unread("overrides", err))
		}
	}
	table, err := published.TableOf(backend)
	if err != nil {
		return all, nil
	}
	v, _, err := published.InForce(ctx, table, published.Cache{})
	var processes []published.Process
	switch {
	case err == nil:
		processes, err = published.Processes(ctx, table)
	case errors.Is(err, published.ErrNothing):
		if err = published.Lost(ctx, table); err == nil {
			return all, nil
		}
	}
	switch {
	case store.IsAway(err):
		return all, err
	case errors.Is(err, store.ErrForeign):
		return append(all, warn("published", "cannot be read: "+oneLine(err),
			"limitctl config rollback N brings back a version that limitctl config history has")), nil
	case err != nil:
		return append(all, unread("published", err)), nil
	}
	var others []string
	for i := range processes {
		if p := &processes[i]; !p.Has(v.Number, v.Hash) {
			others = append(others, fmt.Sprintf("%s on %s (%s)", p.Name, p.Host, p.VersionText()))
		}
	}
	if len(others) > 0 {
		return append(all, warn("published",
			fmt.Sprintf("version %d, and not in force in %s", v.Number, strings.Join(others, ", ")),
			"limitctl config status says why")), nil
	}
	return append(all, fine("published", "version %d; %s", v.Number,
		output.Count(len(processes), "process has it", "processes have it"))), nil
}

// unread returns the finding that something cannot be read. The finding of the rights says which right is missing.
func unread(check string, err error) Finding {
	if foreign, is := errors.AsType[*store.ForeignError](err); is {
		return warn(check, "cannot be read: "+oneLine(err), "delete it, if nobody needs it: "+
			shell.Unlink(foreign.StoreKey))
	}
	return warn(check, "cannot be read: "+oneLine(err), "look at the rights above")
}

// Embedded examines a store without a server. It returns nil for any other.
func Embedded(ctx context.Context, backend store.Store) (*Report, error) {
	var r Report
	switch backend := backend.(type) {
	case *memorystore.Store:
		r.add(fine("reachable", "in the memory of this process: it starts empty and ends with the process"))
	case *filestore.Store:
		health, err := backend.Health(ctx)
		r.add(judgeFile(health, err)...)
		if err != nil {
			return &r, err
		}
	default:
		return nil, nil
	}
	r.Reached = true
	found, err := judgeTables(ctx, backend)
	r.add(found...)
	return &r, err
}

const busyAdvice = "find out who holds the file, for example with fuser; wait for them to end, or longer (--timeout)"

func judgeFile(h filestore.Health, err error) []Finding {
	path := output.Printable(h.Path)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return []Finding{fail("reachable", oneLine(err), busyAdvice)}
	case err != nil:
		return []Finding{fail("reachable", oneLine(err),
			"check the file's path and rights; a file that is damaged or not "+
				"limitctl's can be moved away, which forgets the usage in it")}
	case !h.Exists:
		return []Finding{fine("reachable", "%s does not exist yet; the first take creates it", path)}
	}
	file := fine("file", "sound, writable, journal mode %s", h.JournalMode)
	switch {
	case h.Damage != "":
		file = fail("file", "damaged: "+h.Damage,
			"move the file away, which forgets the usage in it, or repair it with sqlite3 FILE .recover")
	case errors.Is(h.NotWritable, store.ErrUnavailable):
		file = fail("file", "cannot be written: "+oneLine(h.NotWritable), busyAdvice)
	case h.NotWritable != nil:
		file = fail("file", "cannot be written: "+oneLine(h.NotWritable),
			"give the user the right to write the file and its directory")
	case h.JournalMode != "wal":
		file = warn("file", "journal mode "+h.JournalMode+": readers and a writer wait for each other",
			"sqlite3 FILE 'PRAGMA journal_mode = wal' while nobody uses it; on a network file system it cannot be")
	}
	return []Finding{fine("reachable", "%s, %s", path, output.Bytes(h.Bytes)), file,
		fine("keys", "%s", output.Count(h.Keys, "limit"))}
}
