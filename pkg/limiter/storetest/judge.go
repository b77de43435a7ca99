package storetest

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ask returns what the reference would answer to op on a copy of state i, and how much is then in use.
func (c *comparison) ask(i int, op store.Op, req store.Request, at store.Instant) (d store.Decision, used int64) {
	req.Token, req.NotAfter, req.Shadow = "", 0, false
	state := c.states[i].Clone()
	if op == store.Refund {
		state.Refund(req.Cost, at)
	} else {
		store.DecideOne(op, &req, state, &d, at)
	}
	return d, state.Used(at)
}

// judge returns which law of a decision the answers break. before is what was in use before the call, and repeated
// says that its token was known. The reference gave the answers, to which a store's are compared: so the laws hold of
// the rules that embedded stores share, too.
func (c *comparison) judge(op store.Op, reqs []store.Request, before []int64, want []store.Decision, repeated bool,
	now store.Instant) string {
	fits, room := true, reqs[0].Cost // of all that deny
	for i := range reqs {
		if free := reqs[i].Capacity() - before[i]; !reqs[i].Shadow {
			fits, room = fits && reqs[i].Cost <= free, min(room, max(0, free))
		}
	}
	for i := range reqs {
		req, d, free := reqs[i], want[i], reqs[i].Capacity()-before[i]
		after := c.states[i].Used(now)
		expected, late := before[i], op == store.Refund && !d.Allowed
		switch {
		case op == store.Settle, late, op == store.Refund && after >= before[i]-d.Refunded && after <= before[i]:
			expected = after // of a sliding counter, a part of what is given back had faded
		case repeated && op != store.Refund:
			if !d.Repeated || d.Allowed != (d.Granted > 0) || !d.Allowed && !req.Shadow {
				return fmt.Sprintf("Token: what was allowed is repeated as %+v", d)
			}
		case op == store.Take && fits && req.Cost <= free, op == store.Charge:
			expected += req.Cost
		case op == store.TakeUpTo && free > 0:
			expected += min(room, free)
		case op == store.Refund:
			expected -= d.Refunded
		case op == store.Adjust:
			expected = req.Cost
		}
		if after != expected || d.Used != after {
			return fmt.Sprintf("Law03: %d were in use before, %d are after, want %d: %+v", before[i], after, expected, d)
		}
		if op == store.Refund && req.Token == "" && !late && d.Refunded != min(req.Cost, before[i]) {
			return fmt.Sprintf("Refund: %d were in use before, %d are after: %+v", before[i], after, d)
		}
		if (op == store.Take || op == store.Peek) && !repeated && d.Allowed != (req.Cost <= free) || d.Shadow != req.Shadow {
			return fmt.Sprintf("Leave: %d fit: %+v", free, d)
		}
		if d.At != now {
			return fmt.Sprintf("At: it is %d: %+v", now, d)
		}
		if law := c.judgeTimes(i, op, req, d, after, now); law != "" {
			return law
		}
	}
	return ""
}

// judgeTimes checks what an answer says of the future, and of a clock that goes back.
func (c *comparison) judgeTimes(i int, op store.Op, req store.Request, d store.Decision, after int64,
	now store.Instant) string {
	if op == store.TakeUpTo {
		req.Cost = 1
	}
	retry, reset := now+store.Instant(d.RetryAfter.Microseconds()), now+store.Instant(d.ResetAfter.Microseconds())
	denied := !d.Allowed && op != store.Refund && req.Cost <= req.Capacity()
	if denied != (d.RetryAfter > 0) && !d.Repeated {
		return fmt.Sprintf("Law04: %+v", d)
	}
	if denied && !d.Repeated {
		early, _ := c.ask(i, store.Peek, req, retry-1)
		if again, _ := c.ask(i, store.Peek, req, retry); early.Allowed || early.RetryAfter != time.Microsecond || !again.Allowed {
			return fmt.Sprintf("Law04: %+v, a microsecond early %+v, in time %+v", d, early, again)
		}
	}
	rest, more := req, req
	rest.Cost, more.Cost = d.Remaining, d.Remaining+1
	all, _ := c.ask(i, store.Peek, rest, now)
	if one, _ := c.ask(i, store.Peek, more, now); d.Remaining != max(0, req.Capacity()-after) ||
		d.Remaining > 0 && !all.Allowed || one.Allowed {
		return fmt.Sprintf("Law05: %d of %d are in use: %+v", after, req.Capacity(), d)
	}
	_, still := c.ask(i, store.Peek, req, reset-1)
	if _, unused := c.ask(i, store.Peek, req, reset); unused != 0 || after > 0 && still == 0 || after == 0 && d.ResetAfter != 0 {
		return fmt.Sprintf("Law06: %d are in use a microsecond before the reset, and then %d: %+v", still, unused, d)
	}
	if d.Granted > 0 && !d.Repeated && op != store.Settle {
		back := req
		back.Cost = d.Granted
		if _, used := c.ask(i, store.Refund, back, now); used != after-d.Granted {
			return fmt.Sprintf("Refund: %d are in use, and %d after a refund of that: %+v", after, used, d)
		}
		for _, back := range []store.Instant{1, 1_000_000, 3_600_000_000} {
			if _, used := c.ask(i, store.Peek, req, now-back); used != after {
				return fmt.Sprintf("Law07: %d are in use after the clock went back by %d µs: %+v", used, back, d)
			}
		}
	}
	req.Limit, _ = randomLimit(c.r, anyKind(c.r)).Normalize()
	req.Cost, req.Leave = max(1, req.Limit.Capacity()-after), 0
	other, used := c.ask(i, store.Take, req, now)
	if other.Used != used || used != max(after, req.Limit.Capacity()) {
		return fmt.Sprintf("Law08: under %s %d are in use, and %d after a take of %d: %+v", req.Limit, other.Used, used, req.Cost, d)
	}
	return ""
}
