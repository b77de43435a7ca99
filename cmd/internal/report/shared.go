package report

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/joint"
)

// Bounds of what a file says of a shared run.
const (
	mostMachines   = 1000
	mostSharedText = 1000 // bytes
)

// check reports what is impossible.
func (s *Shared) check() error {
	switch {
	case s == nil:
		return nil
	case s.Machines < 1 || s.Machines > mostMachines || s.Missing < 0 || s.Missing > s.Machines:
		return fmt.Errorf("%d machines, %d of them missing, is out of range", s.Machines, s.Missing)
	case max(len(s.Name), len(s.Machine), len(s.NotRecorded)) > mostSharedText:
		return errTooMuch
	}
	return nil
}

// shareable reports what keeps two reports from being merged, about who shared keys with whom.
func shareable(a, b Named) error {
	for i := range a.Runs {
		ours, theirs := a.Runs[i].Shared, b.Runs[i].Shared
		switch {
		case ours == nil && theirs == nil:
			continue
		case ours == nil || theirs == nil || ours.Name != theirs.Name:
			return store.Invalidf("%s is of %s, and %s is of %s; merge reports of one run",
				a.Name, ours.words(), b.Name, theirs.words())
		case !ours.StartAt.Equal(theirs.StartAt) || ours.Machines != theirs.Machines:
			return store.Invalidf("both %s and %s are of a run %q, but of %d machines that began at %s, and of %d that began at %s; "+
				"merge reports of one run", a.Name, b.Name, ours.Name, ours.Machines, ours.StartAt.Format(time.RFC3339),
				theirs.Machines, theirs.StartAt.Format(time.RFC3339))
		case a.Document != b.Document && ours.Machine == theirs.Machine:
			return store.Invalidf("%s and %s are of the same machine; give each machine's report once", a.Name, b.Name)
		}
	}
	return nil
}

// words says which run it is.
func (s *Shared) words() string {
	if s == nil {
		return "a machine with keys of its own"
	}
	return fmt.Sprintf("the run %q", s.Name)
}

// auditTogether audits the answers of all machines that shared keys, if there were any.
func (d *Document) auditTogether(all []Named, apart time.Duration) error {
	for i := range d.Runs {
		first := all[0].Runs[i].Shared
		if first == nil {
			continue
		}
		run := &d.Runs[i]
		run.Shared = &Shared{Name: first.Name, Machines: first.Machines, StartAt: first.StartAt}
		run.Shared.Missing = max(0, first.Machines-len(all))
		var readers []*joint.Reader
		for _, from := range all {
			problem := from.Runs[i].Shared.NotRecorded
			if problem == "" && len(from.Answers) == 0 {
				problem = "the report was printed and not saved"
			}
			if problem != "" {
				run.Shared.NotRecorded = from.Name + " does not hold its answers: " + problem
				break
			}
			reader, err := joint.NewReader(from.Answers)
			if err != nil {
				return store.Invalidf("%s: %v", from.Name, err)
			}
			if reader.Limits() != len(run.Limits) {
				return store.Invalidf("%s holds the answers of %d limits, and has %d", from.Name, reader.Limits(), len(run.Limits))
			}
			readers = append(readers, reader)
		}
		if run.Shared.NotRecorded == "" {
			if err := run.auditShared(readers, apart); err != nil {
				return err
			}
		}
		run.Warnings = append(run.Warnings, run.Shared.warnings()...)
	}
	return nil
}

// auditShared replaces the audits of the machines by one of all answers. The clocks of the machines differ by at most
// apart.
func (r *Run) auditShared(readers []*joint.Reader, apart time.Duration) error {
	var findings []audit.Finding
	var sensitivities []interval.Sensitivity
	var err error
	if readers[0].IsIntervals() {
		findings, sensitivities, err = joint.AuditIntervals(apart, readers...)
	} else {
		findings, err = joint.Audit(readers...)
	}
	switch {
	case errors.Is(err, joint.ErrOtherKeys):
		return store.Invalidf("the machines did not use the same keys: %v; run the same load on all of them", err)
	case err != nil:
		return store.Invalidf("the answers cannot be audited together: %v", err)
	}
	r.Audit = Audit{Fairness: 1}
	for i := range r.Limits {
		l := &r.Limits[i]
		doubtful, explained := l.Doubtful, l.UnderExplained
		l.Audit = Audit{Fairness: 1}
		name := func(key uint32) string { return readers[0].Name(i, key) }
		l.Audit.Add(&findings[i], name)
		if len(sensitivities) > 0 {
			doubtful = r.Shared.Missing > 0 && l.BeginsWithARequest() ||
				slices.ContainsFunc(readers, func(r *joint.Reader) bool { return r.Doubts(i) })
		}
		l.Doubtful, l.UnderExplained = doubtful, explained && findings[i].UnderAdmitted > 0
		if !l.Shadow {
			r.Audit.Add(&findings[i], name)
		}
	}
	r.Keys, r.KeysDenied = 0, 0 // the machines counted the same ones
	for i := range findings {
		r.Keys, r.KeysDenied = max(r.Keys, findings[i].Keys), max(r.KeysDenied, findings[i].KeysDenied)
	}
	r.Shared.Audited = true
	if len(sensitivities) > 0 {
		if r.Shared.Missing > 0 {
			for i := range sensitivities {
				sensitivities[i] = interval.Sensitivity{LeastOver: sensitivities[i].LeastOver}
			}
		}
		r.Sees(sensitivities)
		r.Warnings = append(r.Warnings, fmt.Sprintf("the answers of all machines were audited together, as if their clocks "+
			"differed by at most %s; the figures in them were not", output.Duration(apart)))
	}
	if r.Shared.Missing > 0 {
		r.Figures.Alone()
	}
	return nil
}

// BeginsWithARequest reports whether the windows of the limit, or the intervals of its refill, begin with a request, so that
// who does not know all requests does not know them.
func (l *Limit) BeginsWithARequest() bool {
	limit, err := store.ParseLimit(l.Limit)
	return err == nil && (limit.FromFirst || limit.Refill != 0)
}

// warnings say what the audit of a shared run covers.
func (s *Shared) warnings() []string {
	switch {
	case s == nil:
		return nil
	case s.NotRecorded != "":
		return []string{s.NotRecorded + "; the answers were not audited together, and only what a machine was admitted itself was"}
	case s.Audited && s.Missing > 0:
		return []string{fmt.Sprintf("the answers of %s are missing: only what the others were admitted too much could be found, "+
			"and not what was denied wrongly or told wrong", output.Count(int64(s.Missing), "machine"))}
	}
	return nil
}
