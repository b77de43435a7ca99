package report

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/tier"
)

func TestPagesOfStrangers(t *testing.T) {
	for _, d := range Strangers() {
		page := pageOf(t, d)
		if line := Obeyed(string(page)); line != "" || !utf8.Valid(page) {
			t.Errorf("the page has %.200q", line)
		}
		refersToNothing(t, "a page of strangers", page)
	}
}

func TestReportsThatAreAttacks(t *testing.T) {
	const mostRuns = 10_000
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	for _, fields := range []string{`"requests":1e308`, `"rate":NaN`, `"rate":-1`, `"requests":9223372036854775808`,
		`"latency_us":{"p50":-1}`, `"audit":{"worst_window_ratio":1e300}`, `"neighbours":{"denied":-5}`,
		`"neighbours":{"allowed":9e18}`, `"workers":-1`, `"limits":[{"denied":-1}]`, `"busiest_key_requests":-1`,
		`"cost":{"server_cpu_us":-1}`, `"timeline":[{"offset_ms":1}],"interval_ms":0`, `"started_at":"yesterday"`} {
		d, err := Read("x.json", []byte(`{"schema_version":1,"kind":"loadtest","runs":[{`+fields+`}]}`))
		if err == nil || d != nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s is read: %v", fields, err)
		}
	}
	many := `{"schema_version":1,"kind":"loadtest","runs":[{}` + strings.Repeat(",{}", mostRuns) + `]}`
	if _, err := Read("x.json", []byte(many)); err == nil {
		t.Errorf("a report of %d runs is read", mostRuns+1)
	}
	// What is too long for a clock is shown somehow.
	long, err := Read("x.json", []byte(`{"schema_version":1,"kind":"loadtest","runs":[{"requests":2,"allowed":2,`+
		`"duration_ms":1000000000000000,"warmup_ms":1000000000000000,"interval_ms":1000000000000000,`+
		`"timeline":[{"allowed":1},{"offset_ms":1000000000000000,"allowed":1}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	Printed(Answer{Report: long}, 80)
	pageOf(t, long)
	if text := fmt.Sprint(Answer{Report: long}.Records()); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Errorf("%.300s", text)
	}
}
