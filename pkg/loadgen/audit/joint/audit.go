package joint

import (
	"cmp"
	"errors"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// head is the next entry of a record.
type head struct {
	*Reader
	entry Entry
	told  audit.Figures // by the entry
	// position is the instant by which the entry is put in order.
	position store.Instant
}

// advance reads the next entry. An outcome that is unknown takes its place right after the
// answers that were audited when it became known, because it may have been charged after them.
func (h *head) advance() (ok bool, err error) {
	before := h.last
	ok, err = h.next(&h.entry, &h.told)
	if h.position = h.entry.At; h.entry.Unknown {
		h.position = before
	}
	return ok, err
}

// compare puts entries in the order in which they may have been given: of one instant, an answer
// that reported fewer units in use came earlier, and what was charged came before what found it in
// use.
func (h *head) compare(other *head) int {
	a, b := &h.entry, &other.entry
	return cmp.Or(cmp.Compare(h.position, other.position), cmp.Compare(a.used(), b.used()), cmp.Compare(a.kind(), b.kind()))
}

// used orders the answers of one instant. An answer that reported nothing comes after all that may
// explain it, unless it was charged.
func (e *Entry) used() int64 {
	switch {
	case e.Unknown:
		return -1 << 63
	case e.Reported != nil:
		return e.Reported.Used
	case e.Charged:
		return 0
	}
	return 1 << 62
}

// kind orders the answers of one instant that reported the same.
func (e *Entry) kind() int {
	switch {
	case e.Charged:
		return 0
	case e.Allowed: // and not charged, because another limit denied
		return 1
	}
	return 2
}

// ErrOtherKeys: records are not about the same keys under the same limits.
var ErrOtherKeys = errors.New("they are about other keys, or other limits of them")

// Audit audits the answers of several machines that drove the same keys, as if one machine had
// got all of them. It returns what it found of each limit. The readers are used up. Records of
// different keys are an [ErrOtherKeys].
func Audit(all ...*Reader) ([]audit.Finding, error) {
	var auditors []*audit.Auditor
	for i := range all[0].header.Limits {
		k := &all[0].header.Limits[i]
		auditor, key := audit.New(), uint32(0)
		for _, rule := range k.Rules {
			for range rule.Keys {
				auditor.SetLimit(key, rule.Limit)
				key++
			}
		}
		for _, key := range k.Doubted {
			auditor.Doubt(key)
		}
		auditors = append(auditors, auditor)
	}
	var heads []*head
	for _, r := range all {
		if !r.isLike(all[0]) || r.IsIntervals() {
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
			if heads[i].compare(heads[first]) < 0 {
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
	if e.Unknown {
		auditor.Unknown(e.Key, e.Cost, e.At)
		return
	}
	if e.Doubted {
		auditor.Doubt(e.Key)
	}
	auditor.Observe(e.Observation)
}
