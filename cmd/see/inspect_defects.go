package see

import (
	"slices"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// defectMark marks a key with a defect.
const defectMark = "!"

// defectCount is a defect, and how many keys have it.
type defectCount struct {
	admin.Defect
	keys int
}

// countDefects returns the defects of rows, the most frequent first, and how many rows never expire, and
// keep theirs until somebody deletes the keys.
func countDefects(rows []inspectRow) (counts []defectCount, stuck int) {
	for i := range rows {
		e := &rows[i].entry
		if slices.ContainsFunc(e.Defects, func(d admin.Defect) bool { return d.Stuck && d.Kind == admin.NeverExpires }) {
			stuck++
		}
		for _, d := range e.Defects {
			at := slices.IndexFunc(counts, func(c defectCount) bool { return c.Defect == d })
			if at < 0 {
				at, counts = len(counts), append(counts, defectCount{Defect: d})
			}
			counts[at].keys++
		}
	}
	slices.SortStableFunc(counts, func(a, b defectCount) int { return b.keys - a.keys })
	return counts, stuck
}

// printDefects explains the mark, and prints what helps.
//
// lookFirst is the command that shows what a reset of keys without expiry would delete.
func printDefects(p *output.Printer, counts []defectCount, stuck int, lookFirst string) {
	for i := range counts {
		p.Line("%s %s: %s", defectMark, output.Plural(counts[i].keys, "key"), counts[i].Text)
	}
	if stuck > 0 {
		stay, them := "keys stay", "them"
		if stuck == 1 {
			stay, them = "key stays", "it"
		}
		p.Line("%s %d %s so until somebody deletes %s: reset --no-ttl does that; look first with:", defectMark, stuck, stay, them)
		p.Line("  %s", lookFirst)
	}
}

// printOverfull prints how many keys hardly have the given limit: a limiter that stores when its bucket is full again
// never takes more than the bucket holds.
func printOverfull(p *output.Printer, rows []inspectRow) {
	overfull := 0
	for i := range rows {
		if e := &rows[i].entry; e.RemainingKnown() && e.Used > e.Limit.Capacity() && keepsArrival(e.Layout) {
			overfull++
		}
	}
	if overfull > 0 {
		p.Line("%s %s: more in use than the limit can hold; the given limit is probably not theirs, or was higher until recently",
			defectMark, output.Plural(overfull, "key"))
	}
}

// keepsArrival reports whether the keys of a layout are the time at which all units are back.
func keepsArrival(name string) bool {
	layout, err := layouts.Named(name)
	return err == nil && layout.Info().KeepsArrival
}
