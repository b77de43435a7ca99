package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A limit of others is read as it is written, has a name of its own, and is refused by stores with the word to leave out.
func TestALimitOfOthersIsReadAndRefused(t *testing.T) {
	const text = "fixed-window:5/1s,from=first"
	limit, err := ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	normal, _ := limit.Normalize()
	if limit.String() != text || normal.String() != text {
		t.Errorf("it is written %s, and normalized %s", limit, normal)
	}
	if err = normal.CheckStored(); !errors.Is(err, ErrInvalid) || !strings.HasSuffix(fmt.Sprint(err), text+`" is of somebody else's `+
		"limiter, and no store here decides it; leave from=first out") {
		t.Error(err)
	}
	if name := normal.DefaultName(); name == "fixed-window/1s" {
		t.Errorf("it has the name %s of another limit", name)
	}
}
