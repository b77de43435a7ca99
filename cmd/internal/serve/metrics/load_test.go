package metrics

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/pkg/loadgen"
)

// second is a second of a load test with latencies in microseconds.
func second(latencies ...int64) *loadgen.Second {
	h := hdrhistogram.New(1, 1e9, 3)
	for _, took := range latencies {
		_ = h.RecordValue(took)
	}
	return &loadgen.Second{Planned: 20, Requests: 11, Allowed: 1, Denied: 2, Local: 1, Unguarded: 1, Errors: 6, Dropped: 4,
		ErrorTexts: map[string]int64{"a\nb\"c": 6}, Latency: h}
}

func scrape(t *testing.T, l *Load) string {
	t.Helper()
	w := httptest.NewRecorder()
	l.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d, %v", w.Code, err)
	}
	return string(body)
}

func TestTheSecondsOfALoadTestAddUpInItsMetrics(t *testing.T) {
	l := NewLoad("v1")
	first := scrape(t, l)
	if strings.Contains(first, "limitctl_loadtest") || !strings.Contains(first, `limitctl_build_info{`) {
		t.Errorf("before the first second there is %s", first)
	}
	l.Add("gcra", "20/1s", second(100, 101, 1000))
	l.Add("gcra", "20/1s", second(2_500_000))
	closed := second()
	closed.Planned = -1
	l.Add("gcra", "30/1s", closed)
	text := scrape(t, l)
	for _, want := range []string{
		`limitctl_loadtest_requests_total{algorithm="gcra",limit="20/1s",outcome="allowed"} 2`,
		`limitctl_loadtest_requests_total{algorithm="gcra",limit="20/1s",outcome="denied"} 4`,
		`limitctl_loadtest_requests_total{algorithm="gcra",limit="20/1s",outcome="local"} 2`,
		`limitctl_loadtest_requests_total{algorithm="gcra",limit="20/1s",outcome="unguarded"} 2`,
		`limitctl_loadtest_requests_total{algorithm="gcra",limit="20/1s",outcome="error"} 12`,
		`limitctl_loadtest_requests_total{algorithm="gcra",limit="30/1s",outcome="error"} 6`,
		`limitctl_loadtest_errors_total{algorithm="gcra",error="a\nb\"c",limit="20/1s"} 12`,
		`limitctl_loadtest_planned_total{algorithm="gcra",limit="20/1s"} 40`,
		`limitctl_loadtest_dropped_total{algorithm="gcra",limit="20/1s"} 8`,
		`limitctl_loadtest_latency_seconds_bucket{algorithm="gcra",limit="20/1s",le="0.0001"} 1`,
		`limitctl_loadtest_latency_seconds_bucket{algorithm="gcra",limit="20/1s",le="0.00025"} 2`,
		`limitctl_loadtest_latency_seconds_bucket{algorithm="gcra",limit="20/1s",le="0.001"} 3`,
		`limitctl_loadtest_latency_seconds_bucket{algorithm="gcra",limit="20/1s",le="1"} 3`,
		`limitctl_loadtest_latency_seconds_bucket{algorithm="gcra",limit="20/1s",le="+Inf"} 4`,
		`limitctl_loadtest_latency_seconds_count{algorithm="gcra",limit="20/1s"} 4`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `planned_total{algorithm="gcra",limit="30/1s"}`) {
		t.Error("a closed loop has a plan")
	}
}
