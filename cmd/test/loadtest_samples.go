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
	loadgen.Second
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
