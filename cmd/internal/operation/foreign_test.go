package operation

import (
	"errors"
	"fmt"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Foreign values that only the change met are counted, all of them; one that the scan
// met, too, is told once.
func TestForeignKeysAreCountedOnce(t *testing.T) {
	foreign := func(i int) error {
		return &store.ForeignError{StoreKey: fmt.Sprintf("rl:{u}:%d", i), Holds: "a list"}
	}
	var scanned, changed Foreign
	scanned.add(foreign(0))
	for i := range 20 {
		changed.add(foreign(i))
	}
	scanned.merge(&changed)
	if scanned.Count() != 20 {
		t.Errorf("%d are counted, and there are 20", scanned.Count())
	}
}

// Keys that may deny for ever are named, however many others were met before them.
func TestUnsureKeysForEverComeFirst(t *testing.T) {
	var u Unsure
	for i := range 9 {
		u.add(&layouts.UnsureError{StoreKey: fmt.Sprint(i), NeverExpires: i == 1 || i == 8})
	}
	got := ""
	for _, key := range u.First {
		got += key.StoreKey
	}
	if u.Count != 9 || u.NeverExpire != 2 || got != "18023" {
		t.Errorf("%d keys, %d for ever, first %s, want 9, 2 and 18023", u.Count, u.NeverExpire, got)
	}
}

// Keys that hold the same are one sentence, and nothing is said of those that hold something else.
func TestForeignKeysThatHoldTheSameAreTogether(t *testing.T) {
	of := func(holds ...string) error {
		var f Foreign
		for i, what := range holds {
			f.add(&store.ForeignError{StoreKey: fmt.Sprint(i), Holds: what})
		}
		return f.Err(false)
	}
	for _, test := range []struct {
		holds []string
		want  string
	}{
		{[]string{"a list"}, `key "0" holds a list; it was left as it is`},
		{[]string{"a list", "a list"}, `keys "0" and "1" hold a list; they were left as they are`},
		{[]string{"a list", "a set", "a list"}, "keys \"0\" and \"2\" hold a list; they were left as they are\n" +
			`key "1" holds a set; it was left as it is`},
		{[]string{"a", "a", "a", "a", "a", "a", "a"}, `keys "0", "1", "2", "3", "4" and 2 more hold a; they were left as they are`},
		{[]string{"a", "a", "a", "a", "a", "a", "b"}, "keys \"0\", \"1\", \"2\", \"3\" and \"4\" hold a; they were left as they are\n" +
			"and 2 more foreign values"},
	} {
		err := of(test.holds...)
		if key := (*store.ForeignError)(nil); err.Error() != test.want || !errors.Is(err, store.ErrForeign) || !errors.As(err, &key) {
			t.Errorf("%q: got %q, want %q", test.holds, err, test.want)
		}
	}
}
