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
