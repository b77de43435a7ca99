package audit

import "github.com/limitctl/limitctl/pkg/limiter/store"

// admissions are those of one key in the last period, in the order of their instants.
type admissions struct {
	units int64       // of all
	list  []admission // from first on
	first uint32
}

type admission struct {
	at    store.Instant
	units uint32
}

// add adds an admission that is not before the newest.
func (l *admissions) add(at store.Instant, units int64) {
	l.units += units
	if last := len(l.list) - 1; last >= int(l.first) && l.list[last].at == at {
		l.list[last].units += uint32(units)
		return
	}
	l.list = append(l.list, admission{at, uint32(units)})
}

// forget drops the admissions through an instant.
func (l *admissions) forget(through store.Instant) {
	for int(l.first) < len(l.list) && l.list[l.first].at <= through {
		l.units -= int64(l.list[l.first].units)
		l.first++
	}
	if half := len(l.list) / 2; int(l.first) > half {
		l.list = l.list[:copy(l.list, l.list[l.first:])]
		l.first = 0
	}
}

// each calls do for each admission, the oldest first, until it returns false.
func (l *admissions) each(do func(at store.Instant, units int64) (goOn bool)) {
	for _, one := range l.list[l.first:] {
		if !do(one.at, int64(one.units)) {
			return
		}
	}
}
