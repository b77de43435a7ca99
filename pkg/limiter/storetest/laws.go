package storetest

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// law is a sequence of calls that a law of a decision is about. It runs after a few random calls, and is compared with
// the reference like these, so that a failure says which law broke.
type law struct {
	name   string
	limits int // how many limits each call has
	// calls are operations with a cost for each limit in turn, after which options may follow, and moves of the clock:
	//
	//	take:1/rest,token      of the first limit one unit, of the second what remains, with a token
	//	refund:again,same      the costs of the call before; this call changes nothing
	//	retry- retry reset     to a microsecond before the retry that the last answer said, to the retry, to the reset
	calls string
}

var laws = []law{
	{"Law01_DeniedConsumesNothing", 1, "take:rest take:1,same take:more,same take:all,same"},
	{"Law02_PeekNeverWrites", 1, "take:1 peek:rest,same peek:more,same peek:1,same take:again peek:all,same"},
	{"Law03_AllOrNothing", 3, "take:1 take:1/more/1,same take:rest/1/rest take:1,same take:more/1,same " +
		"peek:1,same twice,same"},
	{"Law04_RetryAfterIsExact", 1, "take:rest take:half,same retry- take:again,same retry take:again " +
		"take:all retry- peek:again,same retry take:again"},
	{"Law05_RemainingIsExact", 1, "take:1 take:rest take:1,same refund:2 take:more,same take:rest peek:1,same"},
	{"Law06_AbsentMeansUnused", 1, "take:half reset- peek:1 peek:all reset peek:all take:all,first " +
		"delete peek:all,first"},
	{"Law07_TimeNeverRunsBackwards", 1, "take:half back peek:rest take:rest take:1,same retry " +
		"take:again back peek:1 refund:1"},
	{"Law08_ChangingALimitKeepsItsUsage", 1, "take:half change peek:rest take:rest change peek:1 " +
		"take:1 refund:1 change adjust:1 take:1"},
	{"Law10_CostThatNeverFitsIsAnError", 1, "take:never,same peek:never,same take:0,same " +
		"refund:-1,same charge:0,same take:1,intime,same"},
	{"At", 2, "take:1 back peek:1 take:1 refund:1 adjust:1"},
	{"Refund", 1, "take:half refund:again peek:1 take:rest refund:1 refund:most refund:most refund:1 take:1"},
	{"LateRefund", 1, "take:half pause refund:again,late,same refund:again,intime take:1,token " +
		"refund:again,token,late,same " +
		"refund:again,token refund:again,token,same take:half back refund:1,late,same refund:1,intime"},
	{"Adjust", 1, "take:half adjust:1 adjust:1,same adjust:rest adjust:all pause adjust:half adjust:0 " +
		"adjust:never,same adjust:-1,same"},
	{"Shadow", 2, "take:1,shadow take:more/1,shadow take:1/more,shadow,same take:never/1,shadow take:rest,shadow"},
	{"Token", 1, "refund:most refund:most take:1,token take:again,token,same pause " +
		"take:again,token,same peek:again,token,same charge:again,token,same " +
		"take:more,token,same refund:1,token refund:1,token,same charge:half,token charge:half,token,same " +
		"takeupto:1,token,same"},
	{"TokenIsForgotten", 1, "refund:most take:half,token ttl- take:again,token,same ttl " +
		"settle:1,token,same take:1,token ttl refund:1,token,same"},
	{"Charge", 1, "charge:rest charge:twice take:1,same retry- peek:again,same retry take:again reset- " +
		"peek:1 reset peek:1"},
	{"ChargeIsBounded", 1, "charge:bound charge:bound,same charge:most,same refund:1"},
	{"Settle", 1, "refund:most refund:most take:half,token settle:1,token settle:1,token,same " +
		"settle:2,token,same take:half,token,same take:1,second pause " +
		"settle:twice,second settle:again,second,same settle:1,third,same settle:1,same"},
	{"TakeUpTo", 2, "take:1 takeupto:half takeupto:most takeupto:1,same retry- takeupto:again,same " +
		"retry takeupto:again"},
	{"Leave", 1, "take:1,leave take:rest,leave take:1,leave,same peek:1 takeupto:most,leave " +
		"take:half,leave,same retry- " +
		"take:again,leave,same retry take:again,leave takeupto:most,leave take:never,leave,same"},
	{"LeaveTogether", 3, "take:1/rest,leave take:1/more,leave,same take:rest,leave take:1,leave,same " +
		"takeupto:most,leave"},
	{"LeaveIsIgnored", 1, "charge:half,leave refund:1,leave adjust:half,leave take:1,token settle:2,token,leave"},
}

// lawCases is how often each law is tested for a kind: with a limit of 500 that is not used, then at random.
const lawCases = 8

// test runs the law against one store.
func (l law) test(t *testing.T, h Harness, kind store.Kind) {
	cases := lawCases
	if testing.Short() {
		cases = 2
	}
	var now time.Time
	backend := h.New(t, func() time.Time { return now })
	for n := range cases {
		now = epoch
		r := rand.New(rand.NewPCG(uint64(n), uint64(crc32.ChecksumIEEE([]byte(t.Name())))))
		c := newComparison(r, kind, fmt.Sprintf("%s:%d", l.name, n), l.limits)
		c.dump = func() string { return h.dump(t, backend) }
		if n == 0 {
			c.reqs[0].Limit = LimitOf(kind, 500, time.Minute)
		}
		difference := ""
		for i := 0; n > 0 && i < c.r.IntN(8) && difference == ""; i++ {
			difference = c.step(backend, &now)
		}
		c.begin(kind)
		for call := range strings.FieldsSeq(l.calls) {
			if difference == "" {
				difference = c.follow(backend, &now, call)
			}
		}
		if difference != "" {
			t.Fatalf("case %d of %s:\n%s\n%s", n, kind, strings.Join(c.trace, "\n"), difference)
		}
		clearStore(backend)
	}
}

// begin makes the requests those of a law, after random ones.
func (c *comparison) begin(kind store.Kind) {
	if kindOf(c.reqs[0].Limit) != kind {
		c.reqs[0].Limit = randomLimit(c.r, kind)
	}
	for i := range c.reqs {
		c.reqs[i].Shadow, c.reqs[i].NotAfter, c.reqs[i].Limit = false, 0, drainable(c.reqs[i].Limit)
	}
}

var ops = map[string]store.Op{"take": store.Take, "peek": store.Peek, "refund": store.Refund, "adjust": store.Adjust,
	"charge": store.Charge, "settle": store.Settle, "takeupto": store.TakeUpTo}

// follow makes one call of a law, or moves the clock.
func (c *comparison) follow(backend store.Store, now *time.Time, call string) (difference string) {
	call, options, _ := strings.Cut(call, ",")
	has := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
	name, costs, isCall := strings.Cut(call, ":")
	switch {
	case call == "twice":
		reqs := []store.Request{c.reqs[0], c.reqs[0]}
		if err := backend.Decide(context.Background(), store.Take, reqs, make([]store.Decision, 2)); err == nil {
			return "the same key twice is no error"
		}
		return ""
	case call == "change":
		c.change(0)
		c.reqs[0].Limit = drainable(c.reqs[0].Limit)
		return ""
	case call == "delete":
		clearStore(backend)
		if _, has := admin.KeyspaceOf(backend); has {
			c.states[0] = new(store.State)
		}
		return ""
	case !isCall:
		if to := now.Add(c.move(call, store.InstantOf(*now))); to.Year() < 2100 { // records end in 2112
			*now = to
		}
		return ""
	}
	op, token := ops[name], ""
	for _, t := range []string{"token", "second", "third"} {
		if has(t) {
			token = c.reqs[0].Key.Subject + ":" + t
		}
	}
	if token != "" && c.tokens[token] == nil {
		c.tokens[token] = new(store.TokenRecord)
	}
	of := strings.Split(costs, "/")
	for i := range c.reqs {
		req := &c.reqs[i]
		req.Token, req.TokenTTL, req.NotAfter, req.Leave = token, store.MaxTokenTTL, 0, 0
		req.Shadow = i == 0 && has("shadow")
		if has("late") {
			req.NotAfter = store.InstantOf(*now) - 1
		} else if has("intime") {
			req.NotAfter = store.InstantOf(*now)
		}
		if has("leave") {
			req.Leave = (req.Limit.Capacity() - 1) / 2
		}
		req.Cost = c.costOf(i, of[i%len(of)], store.InstantOf(*now))
		if op == store.TakeUpTo {
			req.Cost = c.reqs[0].Cost
		}
	}
	dump := c.dump()
	changed, difference := c.compare(backend, op, *now)
	switch after := c.dump(); {
	case difference != "":
		return difference
	case changed && has("same"):
		return "the reference changes the key"
	case !changed && after != dump && !c.forgets(store.InstantOf(*now)):
		return fmt.Sprintf("nothing changed, and yet the store did\nfrom %s\nto   %s", dump, after)
	}
	return ""
}

// costOf returns the cost that a word of a law stands for.
func (c *comparison) costOf(i int, word string, now store.Instant) int64 {
	req := &c.reqs[i]
	capacity, used := req.Limit.Capacity(), c.states[i].Used(now)
	most := req.Limit.Algorithm.MaxCount()
	switch rest := max(1, capacity-req.Leave-used); word {
	case "again":
		return req.Cost
	case "all":
		return capacity
	case "half":
		return (capacity-req.Leave)/2 + (capacity-req.Leave)%2
	case "rest":
		return rest
	case "more":
		return max(0, capacity-req.Leave-used) + 1
	case "never":
		return capacity + 1
	case "twice":
		return min(most, 2*capacity)
	case "bound":
		return max(1, most-used)
	case "most":
		return most
	}
	cost, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	if cost > 0 {
		return min(cost, capacity)
	}
	return cost
}

// move returns by how much a move of a law sets the clock.
func (c *comparison) move(word string, now store.Instant) (by time.Duration) {
	var retry, reset time.Duration
	for _, d := range c.last {
		retry, reset = max(retry, d.RetryAfter), max(reset, d.ResetAfter)
	}
	switch strings.TrimSuffix(word, "-") {
	case "retry":
		by = retry
	case "reset":
		by = reset
	case "ttl":
		by = now.Until(c.tokens[c.reqs[0].Token].Expires)
	case "back":
		if by = -c.reqs[0].Limit.Period / 2; c.forgets(now) {
			by = 0
		}
		return by.Truncate(time.Microsecond)
	case "pause":
		return min(max(0, c.pause(now)), store.MaxTokenTTL-time.Hour)
	default:
		panic(word + " is no move of the clock")
	}
	if strings.HasSuffix(word, "-") {
		by -= time.Microsecond
	}
	return max(0, by)
}

// clearStore deletes everything, if the store can.
func clearStore(backend store.Store) {
	keyspace, has := admin.KeyspaceOf(backend)
	if !has {
		return
	}
	var keys []store.Key
	pattern, _ := store.ParsePattern("*")
	for entry := range keyspace.Scan(context.Background(), admin.Query{Subjects: pattern}) {
		keys = append(keys, entry.Key)
	}
	_, _, _ = keyspace.Delete(context.Background(), admin.Records(keys...)...)
}

// keptUntilUnused checks that by the store's own clock a key that was charged above its capacity stays until its reset
// and not much longer, and is found, deleted and brought back.
func keptUntilUnused(t *testing.T, h Harness, kind store.Kind) {
	keys := h.newKeys(t, nil)
	ctx, limit := context.Background(), LimitOf(kind, 10, time.Minute)
	req := store.Request{Key: store.Key{Subject: "kept", Name: "limit"}, Limit: limit, Cost: 30}
	if err := keys.Decide(ctx, store.Charge, []store.Request{req}, make([]store.Decision, 1)); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, again := range []bool{false, true} {
		var found []admin.Entry
		for entry, err := range keys.Scan(ctx, admin.Query{Subjects: exactly(t, "kept"), Records: true}) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, entry)
		}
		if len(found) != 1 || found[0].Used < 15 { // a bucket leaks
			t.Fatalf("(again: %v) found %+v", again, found)
		}
		apart := time.Since(begin) + time.Millisecond // of the instants of both
		if late := found[0].TTL - found[0].ResetAfter; late < -apart || late > apart+time.Millisecond {
			t.Errorf("reset after %s, but kept for %s", found[0].ResetAfter, found[0].TTL)
		}
		if again {
			return
		}
		if deleted, _, err := keys.Delete(ctx, found[0].Record); deleted != 1 || err != nil {
			t.Fatalf("%d deleted, %v", deleted, err)
		}
		if outcomes, err := keys.Import(ctx, false, found[0].Record); err != nil || outcomes[0] != admin.Imported {
			t.Fatalf("imported %v, %v", outcomes, err)
		}
	}
}

// invalidLimitsAreErrors checks that no operation takes an invalid limit or key, and that none writes.
func invalidLimitsAreErrors(t *testing.T, h Harness, kind store.Kind) {
	backend, limit := h.New(t, nil), LimitOf(kind, 10, time.Minute)
	before := h.dump(t, backend)
	for _, op := range []store.Op{store.Take, store.Peek, store.Refund, store.Adjust, store.Charge, store.TakeUpTo} {
		fails := func(reqs ...store.Request) {
			t.Helper()
			err := backend.Decide(context.Background(), op, reqs, make([]store.Decision, len(reqs)))
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s %v: got error %v, want one that is ErrInvalid", op, reqs, err)
			}
		}
		for _, broken := range []store.Limit{
			{Count: 0, Period: limit.Period},
			{Count: 1, Period: 0},
			{Count: 1, Period: time.Millisecond + time.Nanosecond},
			{Count: 1, Period: limit.Period, Burst: -1},
			{Count: 1, Period: time.Second, Slices: 7},
		} {
			broken.Algorithm = limit.Algorithm
			fails(store.Request{Key: store.Key{Subject: "a", Name: "limit"}, Limit: broken, Cost: 1})
		}
		fails()
		fails(store.Request{Key: store.Key{Subject: "a{b", Name: "limit"}, Limit: limit, Cost: 1})
	}
	if after := h.dump(t, backend); after != before {
		t.Errorf("invalid requests changed the store\nfrom %s\nto   %s", before, after)
	}
}
