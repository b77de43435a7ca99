package trace

import (
	"encoding/binary"
	"fmt"
)

// Subjects are distinct lists of values, one value for each of some fields. Their numbers begin at 0. The zero
// Subjects is empty.
type Subjects struct {
	fields  int
	texts   []string // the values of each in one text; see [appendSubject]
	numbers map[string]uint32
}

// Len returns the number of subjects.
func (s *Subjects) Len() int { return len(s.texts) }

// At returns the values of a subject. A field without a value is "".
func (s *Subjects) At(subject uint32) []string { return decodeSubject(s.texts[subject], s.fields) }

// number returns the number of a subject, and adds it if it is missing.
func (s *Subjects) number(encoded []byte) uint32 {
	number, known := s.numbers[string(encoded)] // which copies nothing
	if !known {
		if s.numbers == nil {
			s.numbers = map[string]uint32{}
		}
		number = uint32(len(s.texts))
		text := string(encoded)
		s.texts, s.numbers[text] = append(s.texts, text), number
	}
	return number
}

// By returns the distinct values of some of the fields, in the order of their first subject, and for each subject
// the number of its values. The numbers are nil if the fields are all fields in their order, so that the subjects
// stay the same. as, if not nil, replaces the value of a field, whose index is that in fields.
func (s *Subjects) By(fields []int, as func(field int, value string) string) (distinct *Subjects, subjectOf []uint32) {
	if as == nil && s.has(fields) {
		return s, nil
	}
	distinct, subjectOf = &Subjects{fields: len(fields)}, make([]uint32, s.Len())
	var encoded []byte
	for i := range subjectOf {
		all := s.At(uint32(i))
		encoded = encoded[:0]
		for i, field := range fields {
			value := all[field]
			if as != nil {
				value = as(i, value)
			}
			encoded = appendValue(encoded, value, len(fields))
		}
		subjectOf[i] = distinct.number(encoded)
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

// appendSubject appends the values of fields as one text: a single value as it is, and several values each after its
// length. It returns what is wrong with them.
func appendSubject(to []byte, fields []Field, values [][]byte) (_ []byte, reason string) {
	for i, value := range values {
		if len(value) == 0 && !fields[i].Optional {
			return to, hasNo(fields[i].Name)
		}
		if len(value) > maxValue {
			return to, fmt.Sprintf("its %s is longer than %d bytes", fields[i].Name, maxValue)
		}
		to = appendValue(to, value, len(values))
	}
	return to, ""
}

// appendValue appends one of so many values.
func appendValue[T []byte | string](to []byte, value T, of int) []byte {
	if of > 1 {
		to = binary.BigEndian.AppendUint16(to, uint16(len(value)))
	}
	return append(to, value...)
}

// decodeSubject is the inverse of [appendSubject].
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
