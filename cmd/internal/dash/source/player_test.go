package source

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
)

// endless is a line that does not end, until so many bytes of it were read.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return copy(p, "\n{\"time\":\"2026-01-02T03:04:05Z\",\"store\":\"after\"}\n"), errEnd
	}
	n := min(e.left, len(p))
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.left -= n
	return n, nil
}

var errEnd = errors.New("the end")

// A line of any length is passed over in bounded memory.
func TestARecordingWithALongLine(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	p := newPlayer(&Options{Play: &endless{left: 3 * longestLine}, Now: time.Now})
	msg := p.next(t.Context())
	answer, is := msg.(Fetched)
	if !is || answer.Store != "after" || answer.LeftOut == nil || !strings.Contains(answer.LeftOut.Error(), "longer than") {
		t.Errorf("after a line of %d MiB: %+v", 3*longestLine>>20, msg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if msg := newPlayer(&Options{Play: &endless{left: 1 << 60}, Now: time.Now}).next(ctx); msg != nil {
		t.Errorf("once it is left: %v", msg)
	}
}

// What no dashboard recorded is refused, and not shown as an empty store.
func TestAFileThatIsNoRecording(t *testing.T) {
	for text, want := range map[string]string{"{\"a\":1}\n": "it has no time; play a file", "PK\n": "it is not JSON; play a file"} {
		msg := newPlayer(&Options{Play: strings.NewReader(text), Now: time.Now}).next(t.Context())
		if out, is := msg.(PlayedOut); !is || out.Err == nil || !strings.Contains(out.Err.Error(), want) {
			t.Errorf("%q: %+v", text, msg)
		}
	}
}
