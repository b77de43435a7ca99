package decision

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// answers are one of a limit alone, and one of a policy's limits in which every field occurs.
func answers() (alone, ofPolicy *Answer) {
	request := func(name string, limit store.Limit, cost int64) store.Request {
		return store.Request{Key: store.Key{Subject: "user:42", Name: name}, Limit: limit, Cost: cost}
	}
	bucket := store.Limit{Algorithm: store.TokenBucket, Count: 10, Period: time.Minute, Burst: 20}
	counter := store.Limit{Algorithm: store.SlidingCounter, Count: 7, Period: time.Hour, Slices: 6}
	alone = &Answer{Key: "user:42", Charges: true, Requests: []store.Request{request("", bucket, 3)}, Overrides: []int{
		-1},
		Decisions: []store.Decision{{Allowed: true, Repeated: true, Unguarded: true, Used: 5, Remaining: 15, Granted: 3,
			ResetAfter: 30 * time.Second, DecidedBy: store.DecidedByLocal, LocalShare: 50_000}}}
	alone.Requests[0].Leave = 4
	override := &store.Override{ID: "aaaaaaaa", Effect: store.OverrideTimes, Thousandths: 2000,
		ExpiresAt: time.Unix(1_800_000_000, 0), Reason: "ticket <7>", By: "ana"}
	ofPolicy = &Answer{Key: "tenant:acme \u202e\"\xff", Charges: true, Overrides: []int{1, -1},
		Requests: []store.Request{
			request("api/all", bucket, 1), request("api/tokens", counter, 2)}, Decisions: []store.Decision{
			{Allowed: true, Shadow: true, Used: 1, Remaining: 39, Granted: 1, Refunded: 1,
				ResetAfter: 1500 * time.Microsecond},
			{Used: 7, Refunded: 2, Override: override, RetryAfter: time.Second, ResetAfter: time.Hour,
				Delay: time.Millisecond}},
		Policy: &policy.Policy{Name: "api", Limits: []policy.Limit{
			{Limit: limiter.Limit{Name: "all"}},
			{Limit: limiter.Limit{Name: "tokens"}, Cost: policy.Cost{Field: "tokens"}}},
		}}
	return alone, ofPolicy
}

// written is a document as it is printed.
func written(t *testing.T, d *Document) string {
	t.Helper()
	text, err := output.JSON(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The document of a refund has the refunded units besides, and nothing else.
func TestDocument(t *testing.T) {
	alone, ofPolicy := answers()
	for a, want := range map[*Answer]string{
		alone: `
{"schema_version":1,"allowed":true,"key":"user:42","cost":3,"remaining":15,"retry_after_ms":0,"reset_after_ms":30000,
"delay_ms":0,"granted":3,"repeated":true,"unguarded":true,"decided_by":"local","local_share":"5%","refunded":0,
"limits":[{"name":"","algorithm":"token-bucket","count":10,"period_ms":60000,"burst":20,"leave":1,"allowed":true,
"used":5,"remaining":15,"retry_after_ms":0,"reset_after_ms":30000,"delay_ms":0,"unguarded":true,"decided_by":"local",
"granted":3,"refunded":0}]}`,
		ofPolicy: `
{"schema_version":1,"policy":"api","allowed":false,"key":"tenant:acme \u202e\"\ufffd","retry_after_ms":1000,
"reset_after_ms":3600000,"delay_ms":1,"decided_by":"store","applied_override":{"id":"aaaaaaaa","effect":"times",
"expires_at":"2027-01-15T08:00:00Z","reason":"ticket \u003c7\u003e","by":"ana",
"asked":"sliding-counter:7/1h,slices=6"},"denied_by":["tokens"],"refunded":2,"limits":[{"name":"api/all",
"algorithm":"token-bucket","count":10,"period_ms":60000,"burst":20,"allowed":true,"used":1,"remaining":39,
"retry_after_ms":0,"reset_after_ms":2,"delay_ms":0,"limit":"all","key":"user:42","shadow":true,"override":2,"cost":1,
"decided_by":"store","granted":1,"refunded":1},{"name":"api/tokens","algorithm":"sliding-counter","count":14,
"period_ms":3600000,"burst":0,"slices":6,"allowed":false,"used":7,"remaining":0,"retry_after_ms":1000,
"reset_after_ms":3600000,"delay_ms":1,"limit":"tokens","key":"user:42","cost":2,"applied_override":{"id":"aaaaaaaa",
"effect":"times","expires_at":"2027-01-15T08:00:00Z","reason":"ticket \u003c7\u003e","by":"ana",
"asked":"sliding-counter:7/1h,slices=6"},"decided_by":"store","granted":0,"refunded":2}]}`,
	} {
		want = strings.ReplaceAll(want, "\n", "")
		if got := written(t, a.RefundDocument()); got != want {
			t.Errorf("of a refund it is\n%s, want\n%s", got, want)
		}
		want = regexp.MustCompile(`,"refunded":\d+`).ReplaceAllString(want, "")
		if got := written(t, a.Document()); got != want {
			t.Errorf("it is\n%s, want\n%s", got, want)
		}
	}
}
