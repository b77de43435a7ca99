package joint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// A record of intervals has two kinds of rows. An answer is its limit plus 1, key, instant of sending since that of the
// answer before, time until the answer, cost and outcome. A 0 and an instant say that all later answers are to requests
// that were sent from then on.

// mostInterval bounds the time that a request may take, and the options of a record.
const mostInterval = 24 * time.Hour

// possible reports whether a record can have these options.
func possible(o *interval.Options) bool {
	return o.Resolution >= 0 && o.Resolution <= mostInterval && o.Skew <= mostInterval
}

// AddInterval adds the answer of a limit. What it reports is left out: it depends on the answers of other machines.
func (w *Writer) AddInterval(limit uint8, o *interval.Observation) {
	if w.problem != "" {
		return
	}
	if w.entries == MostEntries {
		w.giveUp(fmt.Sprintf("there were more than %d answers, and it holds no more", MostEntries))
		return
	}
	w.entries++
	w.append(int64(limit)+1, int64(o.Key), int64(o.Sent-w.last), int64(o.Answered-o.Sent), o.Cost, int64(o.Answer))
	w.last = o.Sent
}

// Settle says that no answer to a request that was sent before an instant is still to come.
func (w *Writer) Settle(before store.Instant) {
	if w.problem == "" {
		w.append(0, int64(before))
	}
}

// nextInterval reads the next row: an answer of a limit, or, if o is nil, until when all answers are there. At the end it
// is the end of time.
func (r *Reader) nextInterval() (limit int, o *interval.Observation, settled store.Instant, err error) {
	n, err := binary.ReadVarint(r.in)
	if errors.Is(err, io.EOF) {
		return 0, nil, mostInstant, nil
	}
	var numbers [5]int64
	row := numbers[:]
	if n == 0 {
		row = numbers[:1]
	}
	for i := range row {
		if err == nil {
			row[i], err = binary.ReadVarint(r.in)
		}
	}
	switch {
	case err != nil || n < 0 || n > int64(len(r.keys)):
		return 0, nil, 0, errDamaged
	case n == 0:
		return 0, nil, min(store.Instant(row[0]), mostInstant), nil
	}
	r.entries++
	sent, took := r.last+store.Instant(row[1]), time.Duration(row[2])*time.Microsecond
	if r.entries > MostEntries || row[0] < 0 || row[0] >= r.keys[n-1] || sent < 0 || sent > mostInstant || row[2] < 0 ||
		took < 0 || took > mostInterval || row[3] < 1 || row[3] > store.MaxCount || row[4] < 0 || row[4] > int64(interval.Uncertain) {
		return 0, nil, 0, errDamaged
	}
	r.last = sent
	return int(n - 1), &interval.Observation{
		Key: uint32(row[0]), Sent: sent, Answered: sent + store.Instant(row[2]), Cost: row[3], Answer: interval.Answer(row[4]),
	}, 0, nil
}

// IsIntervals reports whether the record says only in which intervals answers were decided; see [AuditIntervals].
func (r *Reader) IsIntervals() bool { return r.Intervals != nil }

// AuditIntervals is as [Audit] for records with intervals. The clocks of the machines differ by at most apart.
func AuditIntervals(apart time.Duration, all ...*Reader) ([]audit.Finding, []interval.Sensitivity, error) {
	options := *all[0].Intervals
	for _, r := range all {
		if !r.isLike(all[0]) || !r.IsIntervals() {
			return nil, nil, ErrOtherKeys
		}
		options.Resolution = max(options.Resolution, r.Intervals.Resolution)
		options.UsedBefore = options.UsedBefore || r.Intervals.UsedBefore
	}
	if options.Resolution += apart; options.Skew >= 0 {
		options.Skew += apart
	}
	var auditors []*interval.Auditor
	for i := range all[0].header.Limits {
		auditor, key := interval.New(options), uint32(0)
		for _, rule := range all[0].header.Limits[i].Rules {
			for range rule.Keys {
				auditor.SetLimit(key, rule.Limit)
				key++
			}
		}
		auditors = append(auditors, auditor)
	}
	settled := make([]store.Instant, len(all))
	for {
		first := 0 // the reader that is the farthest behind
		for i := range settled {
			if settled[i] < settled[first] {
				first = i
			}
		}
		for _, auditor := range auditors {
			auditor.Settle(settled[first])
		}
		if settled[first] == mostInstant {
			break
		}
		for {
			limit, o, until, err := all[first].nextInterval()
			if err != nil {
				return nil, nil, err
			}
			if o == nil {
				settled[first] = max(settled[first], until)
				break
			}
			auditors[limit].Observe(*o)
		}
	}
	var findings []audit.Finding
	var sensitivities []interval.Sensitivity
	for _, auditor := range auditors {
		findings, sensitivities = append(findings, auditor.Finding()), append(sensitivities, auditor.Sensitivity())
	}
	return findings, sensitivities, nil
}
