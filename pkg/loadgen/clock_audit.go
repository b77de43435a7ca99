package loadgen

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/joint"
)

// clockAudit audits answers by the instants of their arrival.
type clockAudit struct {
	auditors      []*audit.Auditor
	pending, room []answer
	newest        store.Instant
}

// clockSlack is how far the workers' records can come out of order.
const clockSlack = store.Instant(time.Second / time.Microsecond)

func (c *clockAudit) add(answers []answer) {
	for i := range answers {
		c.newest = max(c.newest, answers[i].at)
	}
	c.pending = append(c.pending, answers...)
}

func (c *clockAudit) fold(safe store.Instant) {
	c.pending, c.room = mergeRuns(c.pending, c.room)
	c.pending = observe(c.auditors, nil, c.pending, safe)
}

// observe audits the answers before the instant safe, which are sorted, records them if there is a
// record, and returns the others.
func observe(auditors []*audit.Auditor, record *joint.Writer, answers []answer, safe store.Instant) (rest []answer) {
	n := 0
	var told audit.Figures
	for ; n < len(answers) && answers[n].at < safe; n++ {
		a := &answers[n]
		auditor := auditors[a.limit]
		if a.doubted {
			auditor.Doubt(a.key)
		}
		o := audit.Observation{Key: a.key, At: a.at, Cost: int64(a.cost), Leave: int64(a.leave), Allowed: a.kind != refused,
			Charged: a.kind == charged}
		if a.tells {
			told = audit.Figures{
				Used: int64(a.used), Remaining: int64(a.remaining), RetryAfter: a.retry, ResetAfter: a.reset, Delay: a.delay,
			}
			o.Reported = &told
		}
		auditor.Observe(o)
		if record != nil {
			record.Add(&joint.Entry{Observation: o, Limit: a.limit, Doubted: a.doubted})
		}
	}
	return answers[:copy(answers, answers[n:])]
}
