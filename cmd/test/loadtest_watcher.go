package test

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/progress"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// loadtestWatcher shows the progress of a load test. It is a [experiment.LoadTestObserver].
type loadtestWatcher struct {
	global  *cli.Globals
	several bool // candidates, so the bar names the current one
	bar     *progress.Bar
}

// Begin shows a bar on a terminal.
func (w *loadtestWatcher) Begin(candidate *experiment.Candidate) (every time.Duration) {
	title := "load"
	if w.several {
		title = candidate.Title()
	}
	w.bar = w.global.Progress(title, "")
	switch {
	case w.bar == nil:
		return 0
	case w.global.Env.ErrIsTerminal:
		return loadgen.ProgressEvery
	}
	return progress.LineEvery
}

// Progress moves the bar.
func (w *loadtestWatcher) Progress(soFar *loadgen.Result, length time.Duration) {
	w.bar.Say(int64(min(soFar.Elapsed, length)), int64(length), progressWords(soFar, length))
}

// End removes the bar.
func (w *loadtestWatcher) End() { w.bar.Close() }

// Kept prints where the keys are.
func (w *loadtestWatcher) Kept(prefix string) {
	if !w.global.Quiet {
		w.global.Note("the run's keys are kept under %s", shell.Command("--prefix", prefix))
	}
}

// progressWords describes the progress of a run.
func progressWords(r *loadgen.Result, length time.Duration) string {
	text := fmt.Sprintf(" %s of %s, %s sent, %s/s", output.Duration(min(r.Elapsed, length).Truncate(time.Second)),
		output.Duration(length.Round(time.Second)), progress.Count(r.Requests),
		progress.Count(int64(float64(r.Requests)/r.Elapsed.Seconds())))
	if r.Allowed+r.Denied > 0 {
		p99 := time.Duration(r.Latency.ValueAtPercentile(99)) * time.Microsecond
		text += fmt.Sprintf(", %s denied, p99 %s", progress.Count(r.Denied), output.Duration(p99))
	}
	if r.Errors > 0 {
		text += fmt.Sprintf(", %s errors", progress.Count(r.Errors))
	}
	return text
}
