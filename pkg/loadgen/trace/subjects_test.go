package trace

import (
	"fmt"
	"slices"
	"testing"
)

// listed returns the values of all subjects.
func listed(s *Subjects) (all [][]string) {
	for i := range s.Len() {
		all = append(all, s.At(uint32(i)))
	}
	return all
}

// Subjects are distinguished by their texts, even if their hashes are equal, and numbered in the order in which
// they come.
func TestSubjectIndex(t *testing.T) {
	for name, hash := range map[string]func([]byte) uint32{
		"hashes":     hashOf,
		"few hashes": func(text []byte) uint32 { return hashOf(text) % 7 },
	} {
		s, x := &Subjects{fields: 1}, newSubjectIndex()
		const n = 2*subjectsInBlock + 5
		for range 2 {
			for i := range n {
				text := fmt.Append(nil, i)
				if number := x.number(s, text, hash(text)); number != uint32(i) {
					t.Fatalf("%s: %d has the number %d", name, i, number)
				}
			}
		}
		if s.Len() != n || s.At(n - 1)[0] != fmt.Sprint(n-1) || s.At(subjectsInBlock)[0] != fmt.Sprint(subjectsInBlock) {
			t.Errorf("%s: %d subjects, the last %q", name, s.Len(), s.At(n-1))
		}
		s.reset()
		x.reset()
		if number := x.number(s, []byte("new"), hash([]byte("new"))); number != 0 || s.At(0)[0] != "new" {
			t.Errorf("%s: the first after a reset is %d, %q", name, number, s.At(0))
		}
	}
}

func TestSubjectsByFields(t *testing.T) {
	s := read(t, "time,key,b\n1,x,1\n2,x,2\n3,y,1\n", Options{Further: []Field{{Name: "b"}}}).Subjects
	for _, test := range []struct {
		fields    []int
		distinct  string
		subjectOf []uint32
	}{
		{[]int{0, 1}, "[[x 1] [x 2] [y 1]]", nil},
		{[]int{0}, "[[x] [y]]", []uint32{0, 0, 1}},
		{[]int{1}, "[[1] [2]]", []uint32{0, 1, 0}},
		{[]int{1, 0}, "[[1 x] [2 x] [1 y]]", []uint32{0, 1, 2}},
	} {
		distinct, subjectOf := s.By(test.fields, nil)
		if got := fmt.Sprint(listed(distinct)); got != test.distinct || !slices.Equal(subjectOf, test.subjectOf) {
			t.Errorf("by %v: %s %v", test.fields, got, subjectOf)
		}
	}
}
