package joint

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Writer writes a record. It is for one goroutine.
type Writer struct {
	out     bytes.Buffer
	zip     *flate.Writer
	buf     []byte
	last    store.Instant
	sum     int64
	entries int64
	problem string
}

// version is the first number of a record.
const version = 1

// NewWriter begins a record of answers about the keys of each limit.
func NewWriter(limits []Keys) *Writer {
	w := new(Writer)
	w.zip, _ = flate.NewWriter(&w.out, flate.BestSpeed) // the level is valid
	keys, names := 0, 0
	for i := range limits {
		keys += len(limits[i].Names)
		for _, name := range limits[i].Names {
			names += len(name)
		}
	}
	if keys > MostKeys || len(limits) > mostLimits {
		w.giveUp(fmt.Sprintf("there are %d keys, and it holds %d", keys, MostKeys))
		return w
	}
	digest := fingerprint(limits)
	w.buf = append(binary.AppendUvarint(w.buf, version), digest[:]...)
	w.number(len(limits))
	for i := range limits {
		w.keys(&limits[i])
	}
	w.names(limits, names <= mostNameBytes)
	return w
}

// names writes what the keys are called, or that they have numbers only.
func (w *Writer) names(limits []Keys, named bool) {
	defer w.flush()
	if !named {
		w.number(0)
		return
	}
	w.number(1)
	for i := range limits {
		for _, name := range limits[i].Names {
			w.number(len(name))
			w.buf = append(w.buf, name...)
		}
	}
}

// fingerprint is different for other keys, and for the same keys under other limits.
func fingerprint(limits []Keys) [sha256.Size]byte {
	hash := sha256.New()
	var line []byte
	for i := range limits {
		k := &limits[i]
		fmt.Fprintf(hash, "%d keys\n", len(k.Names))
		for key, name := range k.Names {
			line = append(binary.AppendUvarint(line[:0], uint64(len(name))), name...)
			if key == 0 || k.Limits[key] != k.Limits[key-1] {
				line = fmt.Append(line, k.Limits[key], "\n")
			}
			hash.Write(line)
		}
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

func (w *Writer) number(n int) { w.buf = binary.AppendUvarint(w.buf, uint64(n)) }

// keys writes what the keys of a limit are under: how many one after the other are under the
// same.
func (w *Writer) keys(k *Keys) {
	w.number(len(k.Limits))
	for first := 0; first < len(k.Limits); {
		next := first + 1
		for next < len(k.Limits) && k.Limits[next] == k.Limits[first] {
			next++
		}
		w.number(next - first)
		w.limit(&k.Limits[first])
		first = next
	}
	w.number(len(k.Doubted))
	for _, key := range k.Doubted {
		w.number(int(key))
	}
}

func (w *Writer) limit(l *store.Limit) {
	fromFirst := int64(0)
	if l.FromFirst {
		fromFirst = 1
	}
	for _, n := range []int64{int64(l.Algorithm), l.Count, l.Period.Microseconds(), l.Burst, l.Slices, fromFirst} {
		w.buf = binary.AppendUvarint(w.buf, uint64(n))
	}
}

// Add adds an entry. Answers come in the order in which a single machine's audit judges them. An
// Unknown comes before every answer of an instant at which it may have been charged.
func (w *Writer) Add(e *Entry) {
	switch {
	case w.problem != "":
		return
	case w.entries == MostEntries:
		w.giveUp(fmt.Sprintf("there were more than %d answers, and it holds no more", MostEntries))
		return
	}
	w.entries++
	flags := byte(e.Kind)
	sum := e.Told.Used + e.Told.Remaining
	for _, flag := range []struct {
		is  bool
		bit byte
	}{
		{e.Doubted, flagDoubted}, {e.Tells, flagTells}, {e.Cost == 1, flagOne}, {sum == w.sum, flagSameSum},
		{e.Told.RetryAfter == 0, flagNoRetry}, {e.Told.Delay == 0, flagNoDelay},
	} {
		if flag.is {
			flags |= flag.bit
		}
	}
	b := append(w.buf, flags, e.Limit)
	b = binary.AppendUvarint(b, uint64(e.Key))
	b = binary.AppendVarint(b, int64(e.At-w.last))
	if e.Kind != Unknown {
		w.last = e.At
	}
	if e.Cost != 1 {
		b = binary.AppendUvarint(b, uint64(e.Cost))
	}
	if e.Tells {
		b = binary.AppendVarint(b, e.Told.Used)
		if sum != w.sum {
			b = binary.AppendVarint(b, e.Told.Remaining)
			w.sum = sum
		}
		b = binary.AppendVarint(b, microseconds(e.Told.ResetAfter))
		if e.Told.RetryAfter != 0 {
			b = binary.AppendVarint(b, microseconds(e.Told.RetryAfter))
		}
		if e.Told.Delay != 0 {
			b = binary.AppendVarint(b, microseconds(e.Told.Delay))
		}
	}
	w.buf = b
	if len(w.buf) >= 1<<15 {
		w.flush()
	}
}

// flush compresses what was written.
func (w *Writer) flush() {
	_, _ = w.zip.Write(w.buf) // to memory
	w.buf = w.buf[:0]
	if w.out.Len() > MostBytes {
		w.giveUp(fmt.Sprintf("the answers take more than %d MB", MostBytes>>20))
	}
}

// giveUp drops everything.
func (w *Writer) giveUp(problem string) { w.problem, w.out, w.buf = problem, bytes.Buffer{}, nil }

// Entries returns how many answers the record holds.
func (w *Writer) Entries() int64 { return w.entries }

// Close ends the record and returns it, or why there is none.
func (w *Writer) Close() (data []byte, problem string) {
	if w.problem == "" {
		w.flush()
	}
	if w.problem != "" {
		return nil, w.problem
	}
	_ = w.zip.Close() // to memory
	return w.out.Bytes(), ""
}
