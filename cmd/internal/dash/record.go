package dash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

// player shows the lines of a recording, as far apart as they were recorded.
type player struct {
	*Options
	lines  *bufio.Reader
	number int
	last   time.Time // of the snapshot before
	shown  time.Time // when that was shown
}

func newPlayer(o *Options) *player { return &player{Options: o, lines: bufio.NewReader(o.Play)} }

// sanitize makes the texts of a snapshot such that they do nothing to a terminal. Keys
// are shown so anyway.
func (s *Snapshot) sanitize() {
	for i := range s.Servers {
		server := &s.Servers[i]
		for _, text := range []*string{&server.Name, &server.Version, &server.Role, &server.Problem} {
			*text = output.Printable(*text)
		}
	}
	s.Store, s.Problem = output.Printable(s.Store), output.Printable(s.Problem)
}

// playedOut says that there is no more of a recording, or what is wrong with it.
type playedOut struct{ err error }

// next returns the next snapshot when its time has come.
func (p *player) next(ctx context.Context) tea.Msg {
	text, err := p.lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(text) == 0 {
		return playedOut{}
	}
	p.number++
	if err != nil && !errors.Is(err, io.EOF) {
		return playedOut{fmt.Errorf("line %d of the recording cannot be read: %w", p.number, err)}
	}
	var s Snapshot
	if err := json.Unmarshal(text, &s); err != nil {
		return playedOut{fmt.Errorf("line %d of the recording is no frame: %w", p.number, err)}
	}
	s.sanitize()
	if !p.last.IsZero() {
		if err := p.Sleep(ctx, s.Time.Sub(p.last)-p.Now().Sub(p.shown)); err != nil {
			return nil
		}
	}
	p.last, p.shown = s.Time, p.Now()
	answer := fetched{Snapshot: s}
	if s.Problem != "" {
		answer.err = errors.New(s.Problem)
	}
	return answer
}
