package joint

import (
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// head is the next entry of a record.
type head struct {
	*Reader
	entry Entry
	// position is the instant by which the entry is put in order.
	position store.Instant
}

// advance reads the next entry. An outcome that is unknown takes its place right after the
// answers that were audited when it became known, because it may have been charged after them.
func (h *head) advance() (ok bool, err error) {
	before := h.last
	ok, err = h.next(&h.entry)
	if h.position = h.entry.At; h.entry.Kind == Unknown {
		h.position = before
	}
	return ok, err
}

// before puts entries in the order in which they may have been given: of one instant, an answer
// that told fewer units in use came earlier, and what was charged came before what found it in
// use.
func (h *head) before(other *head) bool {
	a, b := &h.entry, &other.entry
	switch {
	case h.position != other.position:
		return h.position < other.position
	case (a.Kind == Unknown) != (b.Kind == Unknown):
		return a.Kind == Unknown
	case a.used() != b.used():
		return a.used() < b.used()
	}
	return a.Kind < b.Kind
}

// ErrOtherKeys: records are not about the same keys under the same limits.
var ErrOtherKeys = errors.New("they are about other keys, or other limits of them")

// Audit audits the answers of several machines that drove the same keys, as if one machine had
// got all of them. It returns what it found of each limit. The readers are used up. Records of
// different keys are an [ErrOtherKeys].
func Audit(all ...*Reader) ([]audit.Finding, error) {
	var auditors []*audit.Auditor
	for i := range all[0].limits {
		k := &all[0].limits[i]
		auditor := audit.New()
		for key := range k.Limits {
			auditor.SetLimit(uint32(key), k.Limits[key])
		}
		for _, key := range k.Doubted {
			auditor.Doubt(key)
		}
		auditors = append(auditors, auditor)
	}
	var heads []*head
	for _, r := range all {
		if !r.SameKeys(all[0]) {
			return nil, ErrOtherKeys
		}
		h := &head{Reader: r}
		ok, err := h.advance()
		if err != nil {
			return nil, err
		}
		if ok {
			heads = append(heads, h)
		}
	}
	for len(heads) > 0 {
		first := 0
		for i := range heads {
			if heads[i].before(heads[first]) {
				first = i
			}
		}
		heads[first].entry.observe(auditors[heads[first].entry.Limit])
		ok, err := heads[first].advance()
		if err != nil {
			return nil, err
		}
		if !ok {
			heads = append(heads[:first], heads[first+1:]...)
		}
	}
	findings := make([]audit.Finding, len(auditors))
	for i := range auditors {
		findings[i] = auditors[i].Finding()
	}
	return findings, nil
}

// observe adds the entry to the audit of its limit.
func (e *Entry) observe(auditor *audit.Auditor) {
	if e.Kind == Unknown {
		auditor.Unknown(e.Key, int64(e.Cost), e.At)
		return
	}
	if e.Doubted {
		auditor.Doubt(e.Key)
	}
	o := audit.Observation{
		Key: e.Key, At: e.At, Cost: int64(e.Cost), Allowed: e.Kind != Refused, Charged: e.Kind == Charged,
	}
	if e.Tells {
		o.Told = &e.Told
	}
	auditor.Observe(o)
}
