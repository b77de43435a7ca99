package lines_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/limitctl/limitctl/internal/lines"
)

func TestAnErrorOfTheFile(t *testing.T) {
	broken := errors.New("broken")
	reader := lines.NewReader(io.MultiReader(strings.NewReader("one\ntw"), iotest.ErrReader(broken)), 100)
	if line, err := reader.Next(); err != nil || string(line.Text) != "one" {
		t.Errorf("%q, %v", line.Text, err)
	}
	if _, err := reader.Next(); !errors.Is(err, broken) {
		t.Errorf("it says %v", err)
	}
}

// A line of any length takes bounded memory, and the line after it is read.
func TestALineOfAnyLengthTakesBoundedMemory(t *testing.T) {
	const long, most = 256 << 20, 1 << 20
	in := io.MultiReader(io.LimitReader(zeros{}, long), strings.NewReader("\nafter\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	reader := lines.NewReader(in, most)
	line, err := reader.Next()
	runtime.ReadMemStats(&after)
	if err != nil || !line.TooLong || line.Length != long || len(line.Text) != most {
		t.Errorf("the long line: %d of %d bytes, %v", len(line.Text), line.Length, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*most {
		t.Errorf("it took %d bytes", took)
	}
	if line, err := reader.Next(); err != nil || string(line.Text) != "after" {
		t.Errorf("the line after it: %q, %v", line.Text, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// FuzzLines compares with a split of the whole text.
func FuzzLines(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree"), uint8(3))
	f.Add([]byte("\n"), uint8(0))
	f.Add([]byte("one\n\n12345\n123456\nafter\r\ntorn"), uint8(5))
	f.Fuzz(func(t *testing.T, data []byte, most uint8) {
		reader := lines.NewReader(iotest.HalfReader(bytes.NewReader(data)), int(most))
		number := int64(0)
		for want := range bytes.Lines(data) {
			number++
			text, whole := bytes.CutSuffix(want, []byte{'\n'})
			line, err := reader.Next()
			if err != nil || line.Number != number || line.Torn == whole || line.Length != int64(len(text)) ||
				line.TooLong != (len(text) > int(most)) || !bytes.Equal(line.Text, text[:min(len(text), int(most))]) {
				t.Fatalf("line %d of %q, at most %d bytes: %+v, %v", number, data, most, line, err)
			}
		}
		if _, err := reader.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%q has more than %d lines: %v", data, number, err)
		}
	})
}
