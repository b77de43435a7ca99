package cmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// replayed is a log made ready to be sent to a store.
type replayed struct {
	target *loadgen.Target
	// subjectOf says which subject of the target one of the log is.
	subjectOf []uint32
	names     []string // of the fields that make a subject
	subjects  [][]string
}

// replayTarget returns what the subjects of the log ask of a variant.
func (o *loadtestOptions) replayTarget(v *variant) (r *replayed, err error) {
	r = &replayed{subjectOf: make([]uint32, len(o.log.Subjects))}
	var indexes []int
	limits := len(v.limits)
	if v.policy == nil {
		indexes, r.names = o.keyIndexes(o.log)
	} else {
		indexes, r.names = o.attributeIndexes(o.log, v.policy)
		limits = len(v.policy.Limits)
	}
	known := map[string]uint32{}
	for i, all := range o.log.Subjects {
		values := make([]string, len(indexes))
		for n, index := range indexes {
			values[n] = all[index]
		}
		joined := strings.Join(values, "\x00")
		subject, found := known[joined]
		if !found {
			subject = uint32(len(r.subjects))
			known[joined] = subject
			r.subjects = append(r.subjects, values)
		}
		r.subjectOf[i] = subject
	}
	var requests []limiter.Request
	last := -1
	r.target, err = loadgen.NewTarget(len(r.subjects), limits, func(subject, limit int) limiter.Request {
		if v.policy == nil {
			return limiter.Request{Key: limiter.Key{Subject: replaySubject(subject, r.subjects[subject])}, Limit: v.limits[limit]}
		}
		if subject != last {
			given := policy.Attributes{}
			for i, value := range r.subjects[subject] {
				if value != "" {
					given[r.names[i]] = value
				}
			}
			requests, _ = v.policy.Requests(given, 1) // the log has what is needed
			last = subject
		}
		return requests[limit]
	})
	return r, err
}

// replaySubject is a subject that any store takes for one of a log: its own text if
// that will do, else its number.
func replaySubject(number int, values []string) string {
	text := strings.Join(values, " ")
	if len(values) == 1 && !strings.HasPrefix(text, "#") && (limiter.Key{Subject: text, Name: "limit"}).Validate() == nil {
		return text
	}
	return fmt.Sprintf("#%d", number)
}

// withinLimits returns the log without the requests of more units than fit at once,
// which a store would refuse as mistakes, and how many those are.
func withinLimits(log *trace.Trace, most int64) (fitting *trace.Trace, without int) {
	kept := *log
	kept.Requests = nil
	for _, r := range log.Requests {
		if int64(r.Cost) <= most {
			kept.Requests = append(kept.Requests, r)
		}
	}
	return &kept, len(log.Requests) - len(kept.Requests)
}

// replayLength is how long it takes to send a log, but no longer than any load test.
func (o *loadtestOptions) replayLength() time.Duration {
	first, last := o.log.Requests[0].At, o.log.Requests[len(o.log.Requests)-1].At
	length := float64(last-first) * float64(time.Microsecond) / o.factor
	if length >= float64(maxLoadDuration) {
		return maxLoadDuration
	}
	// What is due at the very end is sent, too.
	return time.Duration(length) + time.Millisecond
}
