package layouts

import (
	"reflect"
	"testing"
)

// checkSet checks what a layout writes so that so many units remain, and that it then reads so
// many of the values. found has them afterwards.
func checkSet(t *testing.T, layout Setter, found *Found, remaining int64, want ...Write) {
	t.Helper()
	writes, err := layout.SetRemaining(found, remaining)
	if err != nil || !reflect.DeepEqual(writes, want) {
		t.Fatalf("it writes %+v, %v, want %+v", writes, err, want)
	}
	for _, w := range writes {
		apply(t, found, w)
	}
	reading, err := decode(layout, found)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reading.Entries {
		e := &reading.Entries[i]
		if (e.Key == found.Key || len(reading.Entries) == 1) && e.Remaining != remaining {
			t.Errorf("%d remain, want %d: %+v", e.Remaining, remaining, e)
		}
	}
}
