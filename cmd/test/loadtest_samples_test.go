package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/clitest"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

func aSecond(limit string) *sample {
	return &sample{1, "gcra", limit, loadgen.Second{
		At: time.Date(2026, 3, 1, 12, 0, 3, 0, time.UTC), OffsetMS: 3000, DurationMS: 500, Requests: 30, Allowed: 9, Denied: 8,
		Errors: 2, Unknown: 1, TimedOut: 1, Dropped: 5, ErrorTexts: []loadgen.ErrorCount{{Text: "odd\x1b[2J", Count: 2}}, ReachedPerS: 60,
	}}
}

// Every field of a line has its figure; a closed loop has no plan, and a second without an answer no latency.
func TestALineOfSamples(t *testing.T) {
	const want = `{"schema_version":1,"algorithm":"gcra","limit":"20/1s","at":"2026-03-01T12:00:03Z","offset_ms":3000,` +
		`"duration_ms":500,"planned":null,"requests":30,"allowed":9,"denied":8,"errors":2,"unknown":1,"timed_out":1,"dropped":5,` +
		`"error_texts":[{"text":"odd\u001b[2J","count":2}],"planned_per_s":null,"reached_per_s":60}`
	if got, err := json.Marshal(aSecond("20/1s")); err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// streamTo returns what each Write of a stream to a file does, and its messages.
func streamTo(t *testing.T, file io.WriteCloser) (s *stream, messages *bytes.Buffer) {
	t.Helper()
	messages = new(bytes.Buffer)
	env := clitest.Env(t)
	env.Err = messages
	env.Stream = func(string, bool) (io.WriteCloser, error) { return file, nil }
	s, err := newStream(&cli.Globals{Env: env}, "seconds.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return s, messages
}

// pipe is a file whose writes fail with an error, or wait until it is closed.
type pipe struct {
	lines  []string
	fails  error
	once   sync.Once
	closed chan struct{} // nil if writes do not wait
}

func (p *pipe) Write(data []byte) (int, error) {
	if p.closed != nil {
		<-p.closed
		return 0, errors.New("closed")
	}
	if p.fails == nil {
		p.lines = append(p.lines, string(data))
	}
	return len(data), p.fails
}

func (p *pipe) Close() error {
	p.once.Do(func() {
		if p.closed != nil {
			close(p.closed)
		}
	})
	return nil
}

func TestAStreamHasALineForEachSecond(t *testing.T) {
	file := new(pipe)
	s, messages := streamTo(t, file)
	s.add(aSecond("1/1s"))
	s.add(aSecond("<2/1s>"))
	if err := s.end(); err != nil || messages.Len() > 0 {
		t.Errorf("%v, %s", err, messages)
	}
	if len(file.lines) != 2 || !strings.Contains(file.lines[1], `"limit":"<2/1s>"`) || !strings.HasSuffix(file.lines[1], "}\n") {
		t.Errorf("the lines are %q", file.lines)
	}
}

// Who stops reading ends the stream, and not the load test: it says so once, and is an error at the end.
func TestAStreamWhoseReaderIsGone(t *testing.T) {
	s, messages := streamTo(t, &pipe{fails: errors.New("broken pipe")})
	for range 3 {
		s.add(aSecond("1/1s"))
	}
	err := s.end()
	if want := "limitctl: warning: no more samples can be written: broken pipe; the load test goes on\n"; messages.String() != want {
		t.Errorf("it says %q", messages)
	}
	var printing *cli.OutputError
	if !errors.As(err, &printing) || !strings.HasSuffix(err.Error(), "--samples seconds.jsonl: broken pipe") {
		t.Errorf("the error is %v", err)
	}
}

// A reader that does not read holds up neither the load nor the end for long.
func TestAStreamWhoseReaderIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &pipe{closed: make(chan struct{})}
		s, _ := streamTo(t, file)
		begin, sample := time.Now(), aSecond("1/1s")
		for range mostWaiting + 10 {
			s.add(sample)
		}
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("the load waited %s", waited)
		}
		err := s.end()
		if waited := time.Since(begin); waited != lastLines {
			t.Errorf("the end waited %s", waited)
		}
		if err == nil || !strings.Contains(err.Error(), "did not take the last lines within 5s") ||
			!strings.Contains(err.Error(), "lines found no room") {
			t.Errorf("the error is %v", err)
		}
		synctest.Wait()
	})
}
