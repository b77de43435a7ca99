package trace

import (
	"encoding/binary"
	"hash/maphash"
)

// Subjects are distinct lists of values, one value for each of some fields. Their numbers begin at 0. There can be
// millions, so their texts are in a few large pieces of memory. The zero Subjects is empty.
type Subjects struct {
	fields int
	count  int
	blocks []*subjectBlock
}

// subjectsInBlock is the number of subjects in a block.
const subjectsInBlock = 1 << 12

// subjectBlock is the texts of some subjects, one after the other, and the end of each.
type subjectBlock struct {
	text []byte
	ends [subjectsInBlock]uint32
}

// Len returns the number of subjects.
func (s *Subjects) Len() int { return s.count }

// At returns the values of a subject. A field without a value is "".
func (s *Subjects) At(subject uint32) []string {
	return decodeSubject(string(s.encoded(subject)), s.fields)
}

// encoded returns a subject's values in one text; see [plan.encode].
func (s *Subjects) encoded(subject uint32) []byte {
	b, i := s.blocks[subject/subjectsInBlock], subject%subjectsInBlock
	begin := uint32(0)
	if i > 0 {
		begin = b.ends[i-1]
	}
	return b.text[begin:b.ends[i]]
}

// add adds a subject, and returns its number.
func (s *Subjects) add(encoded []byte) uint32 {
	number := uint32(s.count)
	i := number % subjectsInBlock
	if number/subjectsInBlock == uint32(len(s.blocks)) {
		s.blocks = append(s.blocks, new(subjectBlock))
	}
	b := s.blocks[number/subjectsInBlock]
	if i == 0 {
		b.text = b.text[:0]
	}
	b.text = append(b.text, encoded...)
	b.ends[i] = uint32(len(b.text))
	s.count++
	return number
}

// reset removes all subjects, and keeps their memory.
func (s *Subjects) reset() { s.count = 0 }

// By returns the distinct values of some of the fields, in the order of their first subject, and for each subject
// the number of its values. The numbers are nil if the fields are all fields in their order, so that the subjects
// stay the same. as, if not nil, replaces the value of a field, whose index is that in fields.
func (s *Subjects) By(fields []int, as func(field int, value string) string) (distinct *Subjects, subjectOf []uint32) {
	if as == nil && s.has(fields) {
		return s, nil
	}
	distinct, subjectOf = &Subjects{fields: len(fields)}, make([]uint32, s.count)
	index := newSubjectIndex()
	var encoded []byte
	for i := range subjectOf {
		all := s.At(uint32(i))
		encoded = encoded[:0]
		for i, field := range fields {
			value := all[field]
			if as != nil {
				value = as(i, value)
			}
			if len(fields) > 1 {
				encoded = binary.BigEndian.AppendUint16(encoded, uint16(len(value)))
			}
			encoded = append(encoded, value...)
		}
		subjectOf[i] = index.number(distinct, encoded, hashOf(encoded))
	}
	return distinct, subjectOf
}

// has reports whether fields are all fields in their order.
func (s *Subjects) has(fields []int) bool {
	for i, field := range fields {
		if field != i {
			return false
		}
	}
	return len(fields) == s.fields
}

// decodeSubject is the inverse of [plan.encode].
func decodeSubject(encoded string, fields int) []string {
	if fields == 1 {
		return []string{encoded}
	}
	values := make([]string, 0, fields)
	for range fields {
		var length [2]byte
		copy(length[:], encoded)
		n := int(binary.BigEndian.Uint16(length[:]))
		values = append(values, encoded[2:2+n])
		encoded = encoded[2+n:]
	}
	return values
}

// seed is the seed of all hashes, so that a chunk and the whole log have the same ones.
var seed = maphash.MakeSeed()

func hashOf(encoded []byte) uint32 { return uint32(maphash.Bytes(seed, encoded)) }

// subjectIndex finds subjects by their texts. It is a hash table with open addressing, which is far smaller than a
// map of texts, and has no pointers for the garbage collector to follow. A slot holds the subject's hash and, in
// the lower half, its number plus one; 0 is an empty slot.
type subjectIndex struct {
	slots []uint64
	used  int
}

// leastSlots is the initial number of slots, a power of two.
const leastSlots = 1 << 10

func newSubjectIndex() *subjectIndex { return &subjectIndex{slots: make([]uint64, leastSlots)} }

// number returns the number of a subject, and adds it to s if it is missing.
func (x *subjectIndex) number(s *Subjects, encoded []byte, hash uint32) uint32 {
	mask := uint32(len(x.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := x.slots[at]
		if slot == 0 {
			number := s.add(encoded)
			x.slots[at] = uint64(hash)<<32 | uint64(number+1)
			if x.used++; x.used > len(x.slots)/4*3 {
				x.grow()
			}
			return number
		}
		if uint32(slot>>32) == hash {
			if number := uint32(slot) - 1; string(s.encoded(number)) == string(encoded) {
				return number
			}
		}
	}
}

// guess returns the number of the subject that probably has that hash; ok is false if none has.
func (x *subjectIndex) guess(hash uint32) (number uint32, ok bool) {
	mask := uint32(len(x.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		slot := x.slots[at]
		if slot == 0 {
			return 0, false
		}
		if uint32(slot>>32) == hash {
			return uint32(slot) - 1, true
		}
	}
}

func (x *subjectIndex) grow() {
	old := x.slots
	x.slots = make([]uint64, 2*len(old))
	mask := uint32(len(x.slots) - 1)
	for _, slot := range old {
		if slot == 0 {
			continue
		}
		at := uint32(slot>>32) & mask
		for x.slots[at] != 0 {
			at = (at + 1) & mask
		}
		x.slots[at] = slot
	}
}

// reset removes all subjects.
func (x *subjectIndex) reset() {
	clear(x.slots)
	x.used = 0
}
