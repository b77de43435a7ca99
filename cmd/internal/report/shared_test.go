package report_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/sample"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/joint"
)

// machine returns the report of one of the machines that drove an endpoint together.
func machine(t *testing.T, n, machines int, text string, doubted ...uint32) report.Named {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	keys := joint.Keys{Doubted: doubted}
	if limit, err = limit.Normalize(); err != nil {
		t.Fatal(err)
	}
	keys.Add("user:1", limit)
	run := sample.LoadRun("token-bucket", uint64(n), 1, 0)
	run.Limit = limit.String()
	run.Limits = []report.Limit{{Name: "limit", Limit: limit.String()}}
	run.Shared = &report.Shared{Name: "r", Machine: fmt.Sprint(n), Machines: machines, StartAt: time.Unix(1_700_000_000, 0)}
	d := named(fmt.Sprintf("%d.json", n), run)
	var problem string
	if d.Answers, problem = joint.NewIntervalWriter([]joint.Keys{keys}, interval.Options{Skew: -1}).Close(); problem != "" {
		t.Fatal(problem)
	}
	return d
}

// What the audit of all machines together finds is in doubt if a machine is missing that may have begun a window or an
// interval, and if keys were under several limits in turn.
func TestWhatIsInDoubtWhenMachinesAreMerged(t *testing.T) {
	for _, test := range []struct {
		limit    string
		machines int // two of which are there
		doubted  []uint32
		want     bool
	}{
		{"token-bucket:10/1m", 2, nil, false}, {"token-bucket:10/1m", 3, nil, false},
		{"fixed-window:10/1m,from=first", 2, nil, false}, {"fixed-window:10/1m,from=first", 3, nil, true},
		{"token-bucket:10/1m,refill=12s", 2, nil, false}, {"token-bucket:10/1m,refill=12s", 3, nil, true},
		{"token-bucket:10/1m", 2, []uint32{0}, true},
	} {
		merged, err := report.Merge([]report.Named{
			machine(t, 1, test.machines, test.limit), machine(t, 2, test.machines, test.limit, test.doubted...),
		})
		if err != nil {
			t.Fatal(err)
		}
		if run := &merged.Runs[0]; !run.Shared.Audited || run.Limits[0].Doubtful != test.want {
			t.Errorf("%s on %d machines, %d keys in doubt: doubtful %v, %+v", test.limit, test.machines, len(test.doubted),
				run.Limits[0].Doubtful, run.Shared)
		}
	}
}
