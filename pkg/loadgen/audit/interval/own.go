package interval

import (
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Windows of a key's own: a counter whose windows begin with its first request and follow each other, and a bucket
// that is refilled at intervals since then. When that was is known as well as when the request was decided, and so
// each key is a group of its own, with a phase.

// restart begins the windows of a counter anew if that can be so where e is the next request: a limiter does so from two
// periods after a window began that was the last one in which something was charged. Where that can be so while others
// are under way, nothing is judged until the key has been idle.
func (a *Auditor) restart(k *account, e *event) {
	g, period := k.group, periodOf(k.group.limit)
	newest := k.charge
	if e.answer == Denied { // it begins no window, unless each denied one before it was charged as well
		newest = k.asked
	}
	gone := e.lo-k.until > 2*period+4*period/drift
	if g.limit.Refill != 0 || !g.canRestart(newest, e.hi) || k.models == nil && !gone {
		return
	}
	isUnderWay := e.lo <= k.until
	if !isUnderWay {
		k.settle(e.lo)
	}
	if k.models != nil {
		best := k.models[g.best()]
		k.wasOver, k.wasUnder = k.wasOver || best.over, k.wasUnder || best.most.under
	}
	g.before = g.totals()
	if isUnderWay {
		k.models, g.phases, g.most = nil, []*phase{{}}, 1
		return
	}
	a.begin(g, e, gone)
	k.models = g.models(counted(g.limit))
	for _, m := range k.models {
		m.most.counted = k.lastDenial
	}
	if !gone {
		k.usedBefore(a, e)
	}
}

// canRestart reports whether the windows of a counter can begin anew up to an instant, if something was charged at or
// after another one.
func (g *group) canRestart(charged, until store.Instant) bool {
	period := periodOf(g.limit)
	for _, p := range g.phases {
		from, to := p.interval(charged, until)
		if to-from+mod(from, period) >= 2*period-4*period/drift {
			return true
		}
	}
	return false
}

// usedBefore says that all of the limit may be in use before a request that begins.
func (k *account) usedBefore(a *Auditor, e *event) {
	at := e.lo + 2*a.resolution + 1 // the last instant at which what was sent before can have been charged
	for i, m := range k.models {
		m.usedBefore(k.group.phases[i], at)
	}
}
