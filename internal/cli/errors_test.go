package cli

import (
	"errors"
	"testing"
)

// What an error says of the values that it leaves out is not left out.
func TestMessageKeepsHowManyMore(t *testing.T) {
	err := errors.New("a\nb\nc\nd\ne\nand 295 more foreign values")
	if got, want := Message(err), "a; b; c; d; e; and 295 more foreign values"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Message(errors.New("a\nb\nc\nd\ne\nf\ng")), "a; b; c; d; e; and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
