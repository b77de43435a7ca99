package test

import (
	"testing"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/report"
)

// A threshold that could not be judged ends a job, unless that was allowed; one that was missed always does.
func TestTheExitCodeOfThresholds(t *testing.T) {
	unjudged, missed := report.Threshold{NotJudged: "why"}, report.Threshold{}
	for _, test := range []struct {
		threshold report.Threshold
		noFail    bool
		want      error
	}{
		{report.Threshold{OK: true}, false, nil},
		{unjudged, false, cli.ErrDenied},
		{unjudged, true, nil},
		{missed, true, cli.ErrDenied},
	} {
		o := reporting{noFail: test.noFail}
		d := &report.Document{Runs: make([]report.Run, 1), Thresholds: []report.Threshold{test.threshold}}
		if got := o.exit(d); got != test.want {
			t.Errorf("%+v, --no-fail %t: %v, want %v", test.threshold, test.noFail, got, test.want)
		}
	}
}
