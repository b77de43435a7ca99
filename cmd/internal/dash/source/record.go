package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// player shows the lines of a recording, as far apart as they were recorded. The recording
// may come from anybody: a line that is not a frame is left out, and the others are shown.
type player struct {
	*Options
	lines  *bufio.Reader
	number int
	shown  int       // how many frames were shown
	bad    int       // how many lines were not frames
	torn   bool      // the last line has no end, and is no frame
	first  error     // what is wrong with the first of those
	last   time.Time // of the snapshot before
	at     time.Time // when that was shown
}

func newPlayer(o *Options) *player { return &player{Options: o, lines: bufio.NewReader(o.Play)} }

const (
	// longestLine is more bytes than a frame of the most keys has.
	longestLine = 64 << 20
	// longestGap is how long one frame is shown at most: the slowest refresh.
	longestGap = time.Minute
	// MostPlayed is how many keys of a recording are followed at most.
	MostPlayed = 100_000
)

// PlayedOut says that a recording has ended, or why it cannot be played, and how many of
// its lines were left out.
type PlayedOut struct {
	Err  error
	Bad  int
	Torn bool // the last line is cut off: the recording was, as by a kill
}

// next returns the next snapshot when its time has come.
func (p *player) next(ctx context.Context) tea.Msg {
	var bad error
	for ctx.Err() == nil {
		text, err := p.line(ctx)
		switch {
		case errors.Is(err, io.EOF) && p.shown == 0 && p.bad > 0:
			return PlayedOut{Err: p.first, Bad: p.bad}
		case errors.Is(err, io.EOF) && p.shown == 0 && p.torn:
			return PlayedOut{Err: errors.New("the recording is cut off in its first line, so it has no frame to show")}
		case errors.Is(err, io.EOF):
			return PlayedOut{Bad: p.bad, Torn: p.torn}
		case err != nil && !errors.Is(err, errTooLong):
			return PlayedOut{Err: fmt.Errorf("line %d of the recording cannot be read: %w", p.number+1, err), Bad: p.bad}
		}
		p.number++
		var s Snapshot
		if err == nil {
			err = readFrame(text, &s)
		}
		if err == nil {
			return p.show(ctx, s, bad)
		}
		if !bytes.HasSuffix(text, []byte("\n")) && !errors.Is(err, errTooLong) {
			p.torn = true
			continue // to the end
		}
		bad = fmt.Errorf("line %d of the recording is not a frame: %w", p.number, err)
		if p.bad++; p.first == nil {
			p.first = bad
		}
	}
	return nil
}

// readFrame reads the frame of a line. What is none says what a recording is.
func readFrame(text []byte, s *Snapshot) error {
	var syntax *json.SyntaxError
	err := json.Unmarshal(text, s)
	switch {
	case errors.As(err, &syntax):
		return errors.New("it is not JSON; play a file that limitctl dashboard --record has written")
	case err == nil && s.Time.IsZero():
		return errors.New("it has no time; play a file that limitctl dashboard --record has written")
	}
	return err
}

// show waits until it is time for a snapshot. bad is what was left out before it.
func (p *player) show(ctx context.Context, s Snapshot, bad error) tea.Msg {
	if !p.last.IsZero() {
		if err := p.Sleep(ctx, min(s.Time.Sub(p.last), longestGap)-p.Now().Sub(p.at)); err != nil {
			return nil
		}
	}
	p.shown++
	p.last, p.at = s.Time, p.Now()
	answer := Fetched{Snapshot: s, LeftOut: bad}
	if s.Problem != "" {
		answer.Err = errors.New(s.Problem)
	}
	return answer
}

// errTooLong is a line that is longer than a frame can be.
var errTooLong = fmt.Errorf("it is longer than %d MiB", longestLine>>20)

// line reads the next line. Of one that is too long nothing is kept.
func (p *player) line(ctx context.Context) (text []byte, err error) {
	for ctx.Err() == nil {
		part, readErr := p.lines.ReadSlice('\n')
		if len(text)+len(part) > longestLine {
			err, text = errTooLong, nil
		}
		if err == nil {
			text = append(text, part...)
		}
		switch {
		case errors.Is(readErr, bufio.ErrBufferFull):
		case readErr != nil && len(text) == 0 && err == nil:
			return nil, readErr
		case readErr != nil && !errors.Is(readErr, io.EOF):
			return nil, readErr
		default:
			return text, err
		}
	}
	return nil, ctx.Err()
}
