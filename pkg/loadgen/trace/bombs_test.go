package trace

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// packed returns in, compressed while it is read.
func packed(in io.Reader) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		w := gzip.NewWriter(writer)
		_, err := io.Copy(w, in)
		writer.CloseWithError(errors.Join(err, w.Close()))
	}()
	return reader
}

const soundLine = `203.0.113.9 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1` + "\n"

// However large a log is when it is unpacked, and whatever its lines contain, reading it takes memory for its
// requests only. Lines that are no request are counted.
func TestBombs(t *testing.T) {
	const much = 200 << 20
	repeated := func(text string) io.Reader { return strings.NewReader(strings.Repeat(text, 900_000/len(text)) + "\n") }
	sound := func() io.Reader { return strings.NewReader(soundLine) }
	object := `{"time":"2015-05-17T10:05:03Z","key":"a"`
	for name, test := range map[string]struct {
		format Format
		in     io.Reader
		bad    int64
	}{
		"zeros, packed": {Apache,
			packed(io.MultiReader(sound(), io.LimitReader(zeros{}, much), strings.NewReader("\n"), sound())), 1},
		"brackets of a time": {Apache, io.MultiReader(sound(), repeated(" ["), sound()), 1},
		"quotes and backslashes": {Apache,
			io.MultiReader(sound(), strings.NewReader(strings.TrimSuffix(soundLine, "GET / HTTP/1.1\" 200 1\n")),
				repeated(`\\\"`),
				sound()), 1},
		"an object of fields": {JSONLines,
			io.MultiReader(strings.NewReader(object+"}\n"+object), repeated(`,"a":1`), strings.NewReader(object+"}\n")),
			1},
		"arrays in arrays": {JSONLines,
			io.MultiReader(strings.NewReader(object+"}\n"+object+`,"x":`), repeated("["),
				strings.NewReader(object+"}\n")), 1},
		"a quote of CSV": {CSV,
			io.MultiReader(strings.NewReader("time,key\n1,a\n1,\""), repeated("x,"), strings.NewReader("1,a\n")), 1},
		"values of CSV": {CSV,
			io.MultiReader(strings.NewReader("time,key\n1,a\n1"), repeated(","), strings.NewReader("1,a\n")), 1},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		log, err := Read(context.Background(), test.in, Options{Format: test.format})
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if log.Bad != test.bad || len(log.Requests) != 2 {
			t.Errorf("%s: %d bad lines, %d requests", name, log.Bad, len(log.Requests))
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 80<<20 {
			t.Errorf("%s: %d MB were allocated", name, took>>20)
		}
	}
}

// A file that is no log is refused at once, with a short error.
func TestWhatIsNoLog(t *testing.T) {
	var header strings.Builder
	for i := range 150_000 {
		fmt.Fprintf(&header, "%d,", i)
	}
	for name, in := range map[string]io.Reader{
		"zeros, packed":        packed(io.LimitReader(zeros{}, 100<<20)),
		"packed twice":         packed(packed(strings.NewReader(soundLine))),
		"a header of columns":  strings.NewReader(header.String() + "time\n1\n"),
		"a column many times":  strings.NewReader("time" + strings.Repeat(",key", 200_000) + "\n1\n"),
		"a long name":          strings.NewReader(strings.Repeat("x", 900_000) + ",time\n1,1\n"),
		"a header of no end":   strings.NewReader("time,\"" + strings.Repeat("key,", 100_000)),
		"objects of no fields": strings.NewReader(strings.Repeat("{}\n", 1000)),
	} {
		_, err := Read(context.Background(), in, Options{})
		if !errors.Is(err, store.ErrInvalid) || len(err.Error()) > 3000 {
			t.Errorf("%s: %.300q", name, fmt.Sprint(err))
		}
	}
}
