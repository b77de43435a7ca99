package trace

import (
	"bytes"
	"fmt"
	"strings"
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
func (s *Subjects) At(subject uint32) []string {
	if s.fields == 1 {
		return []string{s.texts[subject]}
	}
	return strings.Split(s.texts[subject], "\x00")[:s.fields]
}

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
	values := make([]string, len(fields))
	for i := range subjectOf {
		all := s.At(uint32(i))
		for n, field := range fields {
			if values[n] = all[field]; as != nil {
				values[n] = as(n, values[n])
			}
		}
		subjectOf[i] = distinct.number([]byte(strings.Join(values, "\x00")))
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

// appendSubject appends the values of fields as one text, with a zero byte between two. It returns what is wrong with
// them.
func appendSubject(to []byte, fields []Field, values [][]byte) (_ []byte, reason string) {
	for i, value := range values {
		switch name := fields[i].Name; {
		case len(value) == 0 && !fields[i].Optional:
			return to, hasNo(name)
		case len(value) > maxValue:
			return to, fmt.Sprintf("its %s is longer than %d bytes", name, maxValue)
		case len(values) > 1 && bytes.IndexByte(value, 0) >= 0:
			return to, fmt.Sprintf("its %s has a zero byte", name)
		case i > 0:
			to = append(to, 0)
		}
		to = append(to, value...)
	}
	return to, ""
}
