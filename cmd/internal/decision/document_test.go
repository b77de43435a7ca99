package decision

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// TestAppendJSON compares the result with what encoding/json makes of the declaration below.
func TestAppendJSON(t *testing.T) {
	for seed := range uint64(2000) {
		text := []string{"user:42", "ünïcode \u202e <&> \"\\\n\xff", "\x7f\u2028", ""}[seed%4]
		a := randomAnswer(rand.New(rand.NewPCG(seed, 1)), text, "reason "+text)
		for _, test := range []struct {
			got      []byte
			declared any
		}{{a.AppendJSON([]byte("before")), declare(a)}, {a.AppendRefundJSON([]byte("before")), declareRefund(a)}} {
			if want, err := output.JSON(test.declared); err != nil || string(test.got) != "before"+string(want) {
				t.Fatalf("seed %d, %v\n got %s\nwant %s", seed, err, test.got, want)
			}
		}
	}
}

// randomAnswer returns a random answer, in which every field occurs from time to time.
func randomAnswer(r *rand.Rand, text, other string) *Answer {
	often := func() bool { return r.IntN(3) > 0 }
	seldom := func() bool { return r.IntN(3) == 0 }
	a := &Answer{Key: text, Charges: often()}
	share := store.Share(r.IntN(100_000) + 1)
	n := r.IntN(4) + 1
	if seldom() {
		a.Policy = &policy.Policy{Name: other}
	}
	for range n {
		limit := store.Limit{Algorithm: store.Algorithms()[r.IntN(len(store.Algorithms()))], Count: r.Int64N(1e9) + 1,
			Period: time.Duration(r.Int64N(1e15) + 1), Burst: r.Int64N(100)}
		if seldom() {
			limit.Slices = r.Int64N(3600)
		}
		a.Requests = append(a.Requests, store.Request{Key: store.Key{Subject: text, Name: other}, Limit: limit, Cost: r.Int64N(9) - 1})
		a.Overrides = append(a.Overrides, r.IntN(3)-1)
		if a.Policy != nil {
			l := policy.Limit{Name: text + other}
			if seldom() {
				l.Cost = policy.Cost{Field: "tokens"}
			}
			a.Policy.Limits = append(a.Policy.Limits, l)
		}
		d := store.Decision{Allowed: often(), Shadow: seldom(), Used: r.Int64N(1e9), Remaining: r.Int64N(1e9), Granted: r.Int64N(9),
			Refunded: r.Int64N(9), Repeated: seldom(), RetryAfter: time.Duration(r.Int64N(1e12)), ResetAfter: time.Duration(r.Int64N(1e18)),
			Delay: time.Duration(r.Int64N(1e10)), Unguarded: seldom(), DecidedBy: store.Decider(r.IntN(6))}
		if seldom() {
			d.Override = &store.Override{ID: other, Effect: store.OverrideTimes, Thousandths: 2000,
				ExpiresAt: time.UnixMicro(r.Int64N(4e15)),
				Reason:    text, By: other}
		}
		if d.DecidedBy == store.DecidedByLocal {
			d.LocalShare = share
		}
		a.Decisions = append(a.Decisions, d)
	}
	return a
}

// override declares an [AppliedOverride] in JSON.
type override struct {
	ID        string    `json:"id"`
	Effect    string    `json:"effect"`
	ExpiresAt time.Time `json:"expires_at"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	Asked     string    `json:"asked,omitempty"`
}

// decided declares a decided limit in JSON.
type decided struct {
	Limit
	PolicysName string    `json:"limit,omitempty"`
	Key         string    `json:"key,omitempty"`
	Shadow      bool      `json:"shadow,omitempty"`
	Override    int       `json:"override,omitempty"`
	Cost        *int64    `json:"cost,omitempty"`
	Applied     *override `json:"applied_override,omitempty"`
	Unguarded   bool      `json:"unguarded,omitempty"`
	DecidedBy   string    `json:"decided_by,omitempty"`
	Granted     *int64    `json:"granted,omitempty"`
}

func declaredLimit(a *Answer, i int) decided {
	d := &a.Decisions[i]
	told := decided{Limit: newLimit(a.Requests[i].Key.Name, a.Effective(i), *d), Shadow: d.Shadow,
		Applied: (*override)(NewAppliedOverride(d.Override, a.Requests[i].Limit)), Unguarded: d.Unguarded, DecidedBy: decidedBy(d)}
	told.Allowed = &d.Allowed
	if a.Charges {
		told.Granted = &d.Granted
	}
	if a.Policy != nil {
		told.PolicysName, told.Key, told.Override = a.LimitName(i), a.Requests[i].Key.Subject, a.Overrides[i]+1
	}
	if a.OwnCosts() {
		told.Cost = &a.Requests[i].Cost
	}
	return told
}

// document declares an answer in JSON.
type document struct {
	SchemaVersion int       `json:"schema_version"`
	Policy        string    `json:"policy,omitempty"`
	Allowed       bool      `json:"allowed"`
	Key           string    `json:"key"`
	Cost          *int64    `json:"cost,omitempty"`
	Remaining     *int64    `json:"remaining,omitempty"`
	RetryAfterMS  int64     `json:"retry_after_ms"`
	ResetAfterMS  int64     `json:"reset_after_ms"`
	DelayMS       int64     `json:"delay_ms"`
	Granted       *int64    `json:"granted,omitempty"`
	Repeated      bool      `json:"repeated,omitempty"`
	Unguarded     bool      `json:"unguarded,omitempty"`
	DecidedBy     string    `json:"decided_by"`
	LocalShare    string    `json:"local_share,omitempty"`
	Applied       *override `json:"applied_override,omitempty"`
	DeniedBy      []string  `json:"denied_by,omitempty"`
	Limits        []decided `json:"limits"`
}

func declare(a *Answer) document {
	sum := store.Summarize(a.Decisions)
	told := document{
		SchemaVersion: output.SchemaVersion,
		Allowed:       sum.Allowed,
		Key:           a.Key,
		RetryAfterMS:  output.Milliseconds(sum.RetryAfter),
		ResetAfterMS:  output.Milliseconds(sum.ResetAfter),
		DelayMS:       output.Milliseconds(sum.Delay),
		Repeated:      sum.Repeated,
		Unguarded:     sum.Unguarded,
		DecidedBy:     sum.DecidedBy.String(),
		Applied:       (*override)(a.Applied()),
		DeniedBy:      a.DeniedBy(),
		Limits:        []decided{},
	}
	if !a.OwnCosts() {
		told.Cost, told.Remaining = &a.Requests[0].Cost, &sum.Remaining
	}
	if a.Charges && !a.OwnCosts() {
		told.Granted = &sum.Granted
	}
	if a.Policy != nil {
		told.Policy = a.Policy.Name
	}
	if sum.DecidedBy == store.DecidedByLocal {
		told.LocalShare = a.localShare().String()
	}
	for i := range a.Decisions {
		told.Limits = append(told.Limits, declaredLimit(a, i))
	}
	return told
}

// refundDocument declares the answer to a refund in JSON.
type refundDocument struct {
	document
	Refunded int64      `json:"refunded"`
	Limits   []refunded `json:"limits"`
}

// refunded is a decided limit and its refunded units.
type refunded struct {
	decided
	Refunded int64 `json:"refunded"`
}

func declareRefund(a *Answer) refundDocument {
	told := refundDocument{document: declare(a), Refunded: a.Refunded()}
	for i, limit := range told.document.Limits {
		told.Limits = append(told.Limits, refunded{limit, a.Decisions[i].Refunded})
	}
	return told
}
