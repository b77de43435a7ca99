package audit

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// judges reports whether the figures that an answer reported can be compared with the truth.
func (a *Auditor) judges(k *account, o *Observation) bool {
	return o.Reported != nil && k.flags&doubted == 0
}

// figuresOf returns what an answer should report that leaves a key in a state, but for the delay.
func figuresOf(s *store.State, r *rule, o *Observation) Figures {
	used := s.Used(o.At)
	f := Figures{Used: used, Remaining: max(0, r.reach(o)-used), ResetAfter: between(o.At, s.UnusedAt(o.At))}
	if !o.Allowed && o.Cost <= r.reach(o) {
		f.RetryAfter = between(o.At, s.UsedAtMost(r.reach(o)-o.Cost, o.At))
	}
	return f
}

// between is the time from an instant to a later one.
func between(from, to store.Instant) time.Duration {
	return time.Duration(max(0, to-from)) * time.Microsecond
}

// compare compares what an answer reported with the truth, which is from least to most. Few units used mean
// many remaining.
func (a *Auditor) compare(o *Observation, least, most *Figures) {
	a.finding.Reported++
	got := o.Reported
	if *got == *least {
		return // nearly always
	}
	wrong := a.lie(o, Remaining, got.Remaining, most.Remaining, least.Remaining)
	wrong = a.lie(o, Used, got.Used, least.Used, most.Used) || wrong
	wrong = a.lie(o, RetryAfter, int64(got.RetryAfter), int64(least.RetryAfter), int64(most.RetryAfter)) || wrong
	wrong = a.lie(o, ResetAfter, int64(got.ResetAfter), int64(least.ResetAfter), int64(most.ResetAfter)) || wrong
	wrong = a.lie(o, Delay, int64(got.Delay), int64(least.Delay), int64(most.Delay)) || wrong
	if wrong {
		a.finding.Lied++
	}
}

// lie notes a field that is reported wrong, and reports whether it is.
func (a *Auditor) lie(o *Observation, field Field, reported, least, most int64) bool {
	if least <= reported && reported <= most {
		return false
	}
	lie := &a.finding.Lies[field]
	if lie.Answers == 0 {
		*lie = Lie{Key: o.Key, At: o.At, Reported: reported, True: least, TrueMost: most}
	}
	lie.Answers++
	return true
}

// fitting remembers when a request of some cost will fit a log, because a key that is denied once
// is mostly denied again.
type fitting struct {
	key           uint32
	room, charged int64 // of the key, when that was found out
	at            store.Instant
}

// figuresOfLog is figuresOf a sliding log, by its admissions.
func (a *Auditor) figuresOfLog(k *account, r *rule, o *Observation) Figures {
	used := k.admissions.units
	f := Figures{Used: used, Remaining: max(0, r.reach(o)-used)}
	if used > 0 {
		f.ResetAfter = between(o.At, k.time+r.period)
	}
	if o.Allowed || o.Cost > r.reach(o) {
		return f
	}
	room := r.reach(o) - o.Cost
	known := a.fits.charged > 0 && a.fits.key == o.Key && a.fits.room == room && a.fits.charged == k.charged
	if !known {
		a.fits = fitting{o.Key, room, k.charged, 0}
		k.admissions.each(func(at store.Instant, units int64) bool {
			a.fits.at = at + r.period
			used -= units
			return used > room
		})
	}
	f.RetryAfter = between(o.At, a.fits.at)
	return f
}
