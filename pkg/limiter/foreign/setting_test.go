package foreign

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
		for i := range found.Values {
			if found.Values[i].StoreKey == w.StoreKey {
				found.Values[i] = written(found.Values[i], w)
			}
		}
	}
	reading, err := layout.Decode(found)
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

// written is a value after a write.
func written(v Value, w Write) Value {
	if w.TTL != 0 {
		v.TTL = w.TTL
	}
	if w.Field == "" {
		return text(w.StoreKey, w.Text, v.TTL)
	}
	fields := []string{w.Field, w.Text}
	for _, member := range v.Members {
		if member.Name != w.Field {
			fields = append(fields, member.Name, member.Text)
		}
	}
	return hash(w.StoreKey, v.TTL, fields...)
}
