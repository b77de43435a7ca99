package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// checkSamples reports flags that do not belong together, so that no stream replaces a report.
func (o *loadtestOptions) checkSamples(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if o.samples == cli.StandardOutput {
		switch {
		case given("output"), given("jq"):
			return cli.Usagef("--samples - and the answer of -o or --jq both want standard output; give --samples a file")
		case o.replacesAnswer():
			return cli.Usagef("--samples - and a summary both want standard output; give one of them a file")
		}
	}
	return nil
}

// sample is the figures of one second of a load test, a line of --samples.
type sample struct {
	SchemaVersion int `json:"schema_version"`
	// Algorithm is that of the run's limit, as in the report; several that differ are joined by "+".
	Algorithm string `json:"algorithm"`
	// Limit is the limit of the run in words, as in the report.
	Limit string `json:"limit"`
	// At is when the second began.
	At time.Time `json:"at"`
	// OffsetMS is when the second began, from the beginning of the run.
	OffsetMS int64 `json:"offset_ms"`
	// DurationMS is 1000, and less for the last line of a run.
	DurationMS int64 `json:"duration_ms"`
	// WarmupMS is how long of the second was warm-up; absent if it was none.
	WarmupMS int64 `json:"warmup_ms,omitempty"`
	// WarmupRequests is the requests of the warm-up that were answered in the second, which no other figure has; absent if there
	// were none.
	WarmupRequests int64 `json:"warmup_requests,omitempty"`
	// Planned is how many requests were due by the schedule; null for a closed loop.
	Planned *int64 `json:"planned"`
	// Requests is those that were answered or failed in the second. The sum of all lines is the report's figure, as for all that
	// is counted here.
	Requests int64 `json:"requests"`
	// Allowed is the requests that the limit itself allowed.
	Allowed int64 `json:"allowed"`
	// Denied is the requests that the limit itself denied.
	Denied int64 `json:"denied"`
	// Errors is the requests that failed.
	Errors int64 `json:"errors"`
	// Unknown is how many of the errors may have been charged all the same.
	Unknown int64 `json:"unknown"`
	// TimedOut is how many of the errors are requests that were not answered in time.
	TimedOut int64 `json:"timed_out"`
	// Dropped is the requests that were given up in the second, since they could not be sent in time.
	Dropped int64 `json:"dropped"`
	// ErrorTexts is the errors by their kind, the commonest first, at most five; absent if there were none.
	ErrorTexts []report.ErrorCount `json:"error_texts,omitempty"`
	// PlannedPerS is the rate by the schedule, warm-up apart; null for a closed loop.
	PlannedPerS *float64 `json:"planned_per_s"`
	// ReachedPerS is the rate of requests that were answered or failed. If it stays behind the planned one, the target or the load
	// generator is at its limit.
	ReachedPerS float64 `json:"reached_per_s"`
	// Latency is from when a request was due until its answer, of requests allowed or denied in the second; absent if there were
	// none.
	Latency *report.Quantiles `json:"latency_us,omitempty"`
}

// sampleOf returns the line of a second.
func sampleOf(algorithm, limit string, second *loadgen.Second) *sample {
	s := &sample{
		SchemaVersion: output.SchemaVersion, Algorithm: algorithm, Limit: limit, At: second.Began.UTC(),
		OffsetMS: second.Offset.Milliseconds(), DurationMS: output.Milliseconds(second.Length),
		WarmupMS: output.Milliseconds(second.Warmup), WarmupRequests: second.WarmedUp, Requests: second.Requests,
		Allowed: second.Allowed, Denied: second.Denied, Errors: second.Errors,
		Unknown: second.Unknown, TimedOut: second.TimedOut, Dropped: second.Dropped, ErrorTexts: report.Commonest(second.ErrorTexts),
		Latency: report.QuantilesOf(second.Latency),
	}
	if second.Latency.TotalCount() == 0 {
		s.Latency = nil
	}
	perSecond := func(n int64) float64 {
		if second.Length <= second.Warmup {
			return 0
		}
		return float64(n) / (second.Length - second.Warmup).Seconds()
	}
	s.ReachedPerS = perSecond(second.Requests)
	if planned := second.Planned; planned >= 0 {
		rate := perSecond(planned)
		s.Planned, s.PlannedPerS = &planned, &rate
	}
	return s
}

const (
	// mostWaiting is how many lines wait for a slow reader: those of more than four hours.
	mostWaiting = 1 << 14
	// lastLines is how long the end of a load test waits until a reader has taken the last lines.
	lastLines = 5 * time.Second
)

// stream writes samples. A reader that is slow or gone does not delay the load.
type stream struct {
	global *cli.Globals
	path   string
	out    io.Writer
	close  func() error
	queue  chan *sample
	ended  chan error // gets why not everything was written, or nil
	lost   int        // lines that found the queue full
}

// newStream opens a stream.
func newStream(g *cli.Globals, path string) (*stream, error) {
	s := &stream{global: g, path: path, out: g.Printer().Data, close: func() error { return nil },
		queue: make(chan *sample, mostWaiting), ended: make(chan error, 1)}
	if path != cli.StandardOutput {
		file, err := g.Env.Stream(path, false)
		if err != nil {
			return nil, cli.Usagef("--samples %s: the file cannot be written: %s", path, cli.Cause(err))
		}
		s.out = file
		s.close = sync.OnceValue(file.Close)
	}
	g.Env.KeepOn() // the load test ends in order, and removes its keys, whoever reads
	panics.Go(s.write, func(err error) { s.ended <- err })
	return s, nil
}

// write writes what is queued until the end. After an error it drops the rest.
func (s *stream) write() (failed error) {
	lines := json.NewEncoder(s.out)
	lines.SetEscapeHTML(false)
	for one := range s.queue {
		if failed != nil {
			continue
		}
		if failed = lines.Encode(one); failed != nil && !s.global.Quiet {
			s.global.Note("warning: no more samples can be written: %s; the load test goes on", cli.Cause(failed))
		}
	}
	return errors.Join(failed, s.close())
}

// add queues a line. It does not wait.
func (s *stream) add(one *sample) {
	select {
	case s.queue <- one:
	default:
		s.lost++
	}
}

// end waits until all lines are written, but not long.
func (s *stream) end() error {
	close(s.queue)
	var failed error
	select {
	case failed = <-s.ended:
	case <-time.After(lastLines):
		s.close()
		failed = fmt.Errorf("its reader did not take the last lines within %s", output.Duration(lastLines))
	}
	if s.lost > 0 {
		failed = errors.Join(failed, fmt.Errorf("%s found no room, since its reader was slow", output.Plural(s.lost, "line")))
	}
	if failed != nil {
		return cli.NotPrinted(fmt.Errorf("%s: %w", shell.Command("--samples", s.path), cli.Cause(failed)))
	}
	return nil
}
