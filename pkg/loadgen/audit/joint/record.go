// Package joint keeps the answers of a load in few bytes, so that the answers of several
// machines that drove the same keys can be audited together.
//
// A record is compressed. It begins with its version and a [header] as JSON. Then each answer
// is a row of numbers.
package joint

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// Bounds of a record, so that any record is read in bounded memory.
const (
	// MostEntries is how many answers a record holds, each limit's counted.
	MostEntries = 5_000_000
	// MostBytes is how large a record is.
	MostBytes = 48 << 20
	// MostKeys is how many keys it is about.
	MostKeys = 2_000_000
	// mostLimits is how many limits are decided together.
	mostLimits = 64
	// mostNameBytes is how long all names of keys are together. Where they are longer, keys have
	// numbers instead.
	mostNameBytes = 4 << 20
	mostHeader    = 64 << 20
	// mostInstant is far beyond every clock, so that computing with instants does not overflow.
	mostInstant = store.Instant(1) << 53
)

// Entry is one limit's answer to one request.
type Entry struct {
	audit.Observation
	Limit uint8 // which of those decided together
	// Doubted: the order of the answer among those of its key is not known. Unknown: no answer
	// came, so that the cost may be charged. At is when the request was given up then.
	Doubted, Unknown bool
}

// Keys are the keys of one limit, in the order of their indexes.
type Keys struct {
	Names []string
	Rules []Rule
	// Doubted are those under several limits in turn.
	Doubted []uint32
}

// Rule is what some keys are under, one after the other. The limit is normalized.
type Rule struct {
	Keys  int
	Limit store.Limit
}

// Add adds a key and the limit that it is under.
func (k *Keys) Add(name string, limit store.Limit) {
	k.Names = append(k.Names, name)
	if n := len(k.Rules); n == 0 || k.Rules[n-1].Limit != limit {
		k.Rules = append(k.Rules, Rule{Limit: limit})
	}
	k.Rules[len(k.Rules)-1].Keys++
}

// header is what the answers of a record are about. The fingerprint is different for other
// keys, and for the same keys under other limits.
type header struct {
	Fingerprint [sha256.Size]byte
	Limits      []Keys
	// Intervals is what is known of the clock that decided, if the instants of decisions are not.
	Intervals *interval.Options `json:",omitempty"`
}

// Writer writes a record. It is for one goroutine.
type Writer struct {
	out     bytes.Buffer
	zip     *flate.Writer
	buf     []byte
	last    store.Instant
	entries int
	problem string
}

// The first number of a record: of one with instants, and of one with intervals.
const (
	version          = 2
	versionIntervals = 3
)

// NewWriter begins a record of answers about the keys of each limit.
func NewWriter(limits []Keys) *Writer { return newWriter(limits, nil) }

// NewIntervalWriter begins a record of answers that say only in which interval they were decided.
func NewIntervalWriter(limits []Keys, options interval.Options) *Writer {
	return newWriter(limits, &options)
}

func newWriter(limits []Keys, intervals *interval.Options) *Writer {
	w := new(Writer)
	w.zip, _ = flate.NewWriter(&w.out, flate.BestSpeed) // the level is valid
	hash := sha256.New()
	keys, names := 0, 0
	for i := range limits {
		keys += len(limits[i].Names)
		fmt.Fprintln(hash, limits[i].Rules)
		for _, name := range limits[i].Names {
			w.buf = append(binary.AppendUvarint(w.buf[:0], uint64(len(name))), name...)
			hash.Write(w.buf)
			names += len(name)
		}
	}
	if keys > MostKeys || len(limits) > mostLimits {
		w.giveUp(fmt.Sprintf("there are %d keys, and it holds %d", keys, MostKeys))
		return w
	}
	h := header{[sha256.Size]byte(hash.Sum(nil)), limits, intervals}
	if names > mostNameBytes {
		h.Limits = nil
		for _, k := range limits {
			k.Names = nil
			h.Limits = append(h.Limits, k)
		}
	}
	text, _ := json.Marshal(h) // there is nothing in it that JSON cannot have
	is := uint64(version)
	if intervals != nil {
		is = versionIntervals
	}
	w.buf = binary.AppendUvarint(binary.AppendUvarint(w.buf[:0], is), uint64(len(text)))
	w.buf = append(w.buf, text...)
	w.flush()
	return w
}

// The flags of an answer, which are the first number of its row.
const (
	flagAllowed = 1 << iota
	flagCharged
	flagDoubted
	flagUnknown
	flagTold   // the row has the numbers of Told
	flagLeaves // and then one more, what the request leaves
	flags      = 1<<iota - 1
)

// row is an answer as numbers: flags, limit, key, instant since the answer before, cost, and
// what was reported. What is used and what remains mostly add up to the same.
type row [10]int64

// told is where the numbers of Told begin.
const told = 5

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
	r := row{0, int64(e.Limit), int64(e.Key), int64(e.At - w.last), e.Cost}
	numbers := r[:told]
	for flag, is := range [...]bool{e.Allowed, e.Charged, e.Doubted, e.Unknown, e.Reported != nil} {
		if is {
			r[0] |= 1 << flag
		}
	}
	if t := e.Reported; t != nil {
		copy(r[told:], []int64{t.Used, t.Used + t.Remaining, int64(t.RetryAfter), int64(t.ResetAfter), int64(t.Delay)})
		numbers = r[:]
	}
	if !e.Unknown {
		w.last = e.At
	}
	if e.Leave != 0 {
		r[0] |= flagLeaves
		numbers = append(numbers[:len(numbers):len(numbers)], e.Leave)
	}
	w.append(numbers...)
}

// append adds the numbers of a row.
func (w *Writer) append(numbers ...int64) {
	for _, n := range numbers {
		w.buf = binary.AppendVarint(w.buf, n)
	}
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

// Reader reads a record.
type Reader struct {
	header
	in      *bufio.Reader
	keys    []int64 // how many there are under each limit
	last    store.Instant
	entries int
}

// errDamaged is about a record that no Writer wrote.
var errDamaged = errors.New("the record of its answers is damaged")

// NewReader reads the beginning of a record.
func NewReader(data []byte) (*Reader, error) {
	r := &Reader{in: bufio.NewReader(flate.NewReader(bytes.NewReader(data)))}
	is, err := binary.ReadUvarint(r.in)
	if err == nil && is != version && is != versionIntervals {
		return nil, fmt.Errorf("the record of its answers is of version %d, and this limitctl reads %d and %d", is, version,
			versionIntervals)
	}
	size, err := binary.ReadUvarint(r.in)
	if err != nil || size > mostHeader {
		return nil, errDamaged
	}
	text, err := io.ReadAll(io.LimitReader(r.in, int64(size)))
	if err != nil || json.Unmarshal(text, &r.header) != nil || len(r.header.Limits) > mostLimits ||
		(is == versionIntervals) != (r.Intervals != nil) || r.Intervals != nil && !possible(r.Intervals) {
		return nil, errDamaged
	}
	all := 0
	for i := range r.header.Limits {
		k := &r.header.Limits[i]
		keys := 0
		for j, rule := range k.Rules {
			if k.Rules[j].Limit, err = rule.Limit.Normalize(); err != nil || rule.Keys < 1 || rule.Keys > MostKeys {
				return nil, errDamaged
			}
			if keys += rule.Keys; all+keys > MostKeys {
				return nil, errDamaged
			}
		}
		for _, key := range k.Doubted {
			if int(key) >= keys {
				return nil, errDamaged
			}
		}
		all += keys
		r.keys = append(r.keys, int64(keys))
	}
	return r, nil
}

// Name is what a key of a limit is called.
func (r *Reader) Name(limit int, key uint32) string {
	if names := r.header.Limits[limit].Names; int(key) < len(names) {
		return names[key]
	}
	return fmt.Sprintf("key %d", key)
}

// Doubts reports whether some keys of a limit were under several limits in turn, so that nothing is certain about it.
// [Audit] knows which keys, [AuditIntervals] does not.
func (r *Reader) Doubts(limit int) bool { return len(r.header.Limits[limit].Doubted) > 0 }

// isLike reports whether two records are about the same keys. A damaged header can have another number of keys than
// its fingerprint is of, and its answers are within that number.
func (r *Reader) isLike(other *Reader) bool {
	return r.Fingerprint == other.Fingerprint && slices.Equal(r.keys, other.keys)
}

// Limits returns how many limits were decided together.
func (r *Reader) Limits() int { return len(r.header.Limits) }

// next reads the next entry into e, and reports whether there was one. It uses told for what the
// answer told.
func (r *Reader) next(e *Entry, figures *audit.Figures) (ok bool, err error) {
	var n row
	if n[0], err = binary.ReadVarint(r.in); errors.Is(err, io.EOF) {
		return false, nil
	}
	numbers := n[1:told]
	if n[0]&flagTold != 0 {
		numbers = n[1:]
	}
	for i := range numbers {
		if err == nil {
			numbers[i], err = binary.ReadVarint(r.in)
		}
	}
	leave := int64(0)
	if n[0]&flagLeaves != 0 && err == nil {
		if leave, err = binary.ReadVarint(r.in); leave < 1 || leave > store.MaxCount {
			return false, errDamaged
		}
	}
	at := r.last + store.Instant(n[3])
	limit, key, cost := n[1], n[2], n[4]
	r.entries++
	if err != nil || r.entries > MostEntries || n[0] < 0 || n[0] > flags || limit < 0 || limit >= int64(len(r.keys)) ||
		key < 0 || key >= r.keys[limit] || at < 0 || at > mostInstant || cost < 1 || cost > store.MaxCount {
		return false, errDamaged
	}
	is := func(flag int64) bool { return n[0]&flag != 0 }
	*e = Entry{
		Observation: audit.Observation{Key: uint32(key), At: at, Cost: cost, Leave: leave, Allowed: is(flagAllowed),
			Charged: is(flagCharged)},
		Limit: uint8(limit), Doubted: is(flagDoubted), Unknown: is(flagUnknown),
	}
	if !e.Unknown {
		r.last = at
	}
	if is(flagTold) {
		*figures = audit.Figures{
			Used: n[5], Remaining: n[6] - n[5], RetryAfter: time.Duration(n[7]), ResetAfter: time.Duration(n[8]),
			Delay: time.Duration(n[9]),
		}
		e.Reported = figures
	}
	return true, nil
}
