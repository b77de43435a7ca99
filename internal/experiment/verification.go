package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// Verification judges answers that load generators recorded, under one candidate. It is for one goroutine.
type Verification struct {
	Candidate Candidate
	// Log says which fields make the subject. Its Trace is empty, and its Name says where the answers are from.
	Log *Log
	// Denied are the statuses of denials; the default is 429.
	Denied []int
	// ClockError is the most by which the clock of a generator is off.
	ClockError time.Duration

	target     endpointTarget
	answers    []loadgen.Recorded
	programs   []string
	headerless []string      // those of them that do not record headers
	unit       time.Duration // of the coarsest time
}

var errUnanswered = errors.New("no answer")

// Read adds the answers in a file. Its error about what the file holds is a [store.ErrInvalid].
func (v *Verification) Read(ctx context.Context, in io.Reader, options trace.Options) error {
	if limits := v.Candidate.limits(); len(limits) == 1 {
		v.target.limit = &limits[0].limit
	}
	v.target.once = sync.Once{} // each generator has a clock of its own
	told := endpoint.Options{DeniedStatuses: v.Denied}
	of, err := trace.ReadRecorded(ctx, in, options, v.Log.Trace, func(r *trace.Recorded) {
		a := loadgen.Recorded{Sent: r.Sent, Answered: r.Answered, Took: r.Took, Subject: r.Subject, Err: errUnanswered}
		if r.Status > 0 {
			answer := &endpoint.Answer{Sent: r.Sent.Time()}
			told.Tell(answer, r.Answered.Time(), r.Status, r.Header)
			if a.Err = v.target.count(answer); a.Err == nil && r.Header != nil {
				a.Reported = v.target.reported(answer)
			}
			a.Allowed = answer.Outcome == endpoint.Allowed
		}
		v.answers, v.unit = append(v.answers, a), max(v.unit, r.Unit)
	})
	if v.programs = append(v.programs, of.Program); !of.Headers {
		v.headerless = append(v.headerless, of.Program)
	}
	return err
}

// Report judges all answers. An error is a [store.ErrInvalid].
func (v *Verification) Report() (*report.Document, error) {
	if len(v.answers) == 0 {
		return nil, store.Invalidf("there is no request in %s", v.Log.Name)
	}
	onLog, fields := v.Log.candidate(&v.Candidate)
	population, err := onLog.Population(v.Log.Trace)
	if err != nil {
		return nil, err
	}
	for i := range v.answers {
		v.answers[i].Subject = population.SubjectOf(v.answers[i].Subject)
	}
	const resolution = time.Millisecond // of the clock that decides, as in a load test
	result := loadgen.AuditRecorded(population.Population, v.answers,
		interval.Options{Resolution: resolution + v.ClockError, UsedBefore: true})
	run := newRun(result, &v.Candidate, func(subject uint32) string {
		return subjectName(population.Values.At(subject), fields, v.Candidate.Policy != nil)
	})
	run.Rate, run.Store = result.ThroughputPerS, "recorded answers ("+eachOnce(v.programs)+")"
	run.Load = fmt.Sprintf("%s in %s", output.Count(result.Requests, "request"), v.Log.Name)
	v.warnCoarse(run)
	warnOfLimits(run, population.MixedKeys)
	v.target.describeAnswers(run)
	if v.Candidate.Policy == nil && len(v.Log.KeyFields) == 0 && run.Keys == 1 {
		warn(run, "all requests count as one subject; if several asked, --key-field FIELD says who")
	}
	if len(v.programs) > 1 && v.ClockError == 0 {
		warn(run, "the clocks of the machines that recorded are taken to agree; --clock-error says how far off they "+
			"may be")
	}
	if len(v.headerless) > 0 {
		warn(run, "headers are not in this record (%s), and were not checked", eachOnce(v.headerless))
	}
	document := report.New(report.LoadTest)
	document.Runs = []report.Run{*run}
	return document, nil
}

// warnCoarse marks limits about which nothing was found because the times are too coarse for their periods, and says
// so.
func (v *Verification) warnCoarse(run *report.Run) {
	off := v.unit + 2*v.ClockError
	for i, l := range v.Candidate.limits() {
		is := &run.Limits[i]
		if period := l.limit.Period; 2*off >= period && is.OverAdmitted+is.UnderAdmitted == 0 {
			is.Doubtful = true
			how := ""
			if slices.Contains(v.programs, "k6") {
				how = " (K6_CSV_TIME_FORMAT=unix_milli)"
			}
			warn(run, "the times of the record are off by up to %s, too much for a period of %s; let them be written "+
				"more exactly%s", output.Duration(off), store.FormatPeriod(period), how)
		}
	}
}

// eachOnce lists words.
func eachOnce(words []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(words))), " and ")
}
