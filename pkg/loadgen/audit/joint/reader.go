package joint

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Reader reads a record.
type Reader struct {
	in          *bufio.Reader
	fingerprint [sha256.Size]byte
	limits      []Keys
	last        store.Instant
	sum         int64
	entries     int64
}

// errDamaged is about a record that no Writer wrote.
var errDamaged = errors.New("the record of its answers is damaged")

// NewReader reads the beginning of a record.
func NewReader(data []byte) (*Reader, error) {
	r := &Reader{in: bufio.NewReader(flate.NewReader(bytes.NewReader(data)))}
	n, err := r.number(math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if n != version {
		return nil, fmt.Errorf("the record of its answers is of version %d, and this limitctl reads %d", n, version)
	}
	if _, err := io.ReadFull(r.in, r.fingerprint[:]); err != nil {
		return nil, errDamaged
	}
	limits, err := r.number(mostLimits)
	if err != nil {
		return nil, err
	}
	total, rules := 0, 0
	for range limits {
		k, err := r.keys(MostKeys-total, &rules)
		if err != nil {
			return nil, err
		}
		total += len(k.Limits)
		r.limits = append(r.limits, k)
	}
	return r, r.names()
}

// number reads a number that is at most some other.
func (r *Reader) number(most int) (int, error) {
	n, err := binary.ReadUvarint(r.in)
	if err != nil || n > uint64(most) {
		return 0, errDamaged
	}
	return int(n), nil
}

// keys reads what at most that many keys of a limit are under.
func (r *Reader) keys(most int, rules *int) (k Keys, err error) {
	n, err := r.number(most)
	if err != nil {
		return k, err
	}
	for len(k.Limits) < n {
		same, err := r.number(n - len(k.Limits))
		if *rules++; err != nil || same == 0 || *rules > mostRules {
			return k, errDamaged
		}
		limit, err := r.limit()
		if err != nil {
			return k, err
		}
		for range same {
			k.Limits = append(k.Limits, limit)
		}
	}
	doubted, err := r.number(n)
	for range doubted {
		key, err := r.number(n - 1)
		if err != nil {
			return k, err
		}
		k.Doubted = append(k.Doubted, uint32(key))
	}
	return k, err
}

func (r *Reader) limit() (l store.Limit, err error) {
	var n [6]int64
	for i := range n {
		value, err := binary.ReadUvarint(r.in)
		if err != nil || value > math.MaxInt64/uint64(time.Microsecond) {
			return l, errDamaged
		}
		n[i] = int64(value)
	}
	if n[0] > math.MaxUint8 {
		return l, errDamaged
	}
	l = store.Limit{
		Algorithm: store.Algorithm(n[0]), Count: n[1], Period: time.Duration(n[2]) * time.Microsecond,
		Burst: n[3], Slices: n[4], FromFirst: n[5] == 1,
	}
	if l, err = l.Normalize(); err != nil {
		return l, errDamaged
	}
	return l, nil
}

// names reads what all the keys are called, if the record says.
func (r *Reader) names() error {
	named, err := r.number(1)
	if err != nil || named == 0 {
		return err
	}
	left := mostNameBytes
	for i := range r.limits {
		k := &r.limits[i]
		k.Names = make([]string, len(k.Limits))
		for key := range k.Names {
			n, err := r.number(left)
			if err != nil {
				return err
			}
			name := make([]byte, n)
			if _, err := io.ReadFull(r.in, name); err != nil {
				return errDamaged
			}
			k.Names[key], left = string(name), left-n
		}
	}
	return nil
}

// Name is what a key of a limit is called.
func (r *Reader) Name(limit int, key uint32) string {
	if names := r.limits[limit].Names; int(key) < len(names) {
		return names[key]
	}
	return fmt.Sprintf("key %d", key)
}

// Limits returns how many limits were decided together.
func (r *Reader) Limits() int { return len(r.limits) }

// SameKeys reports whether two records are about the same keys under the same limits.
func (r *Reader) SameKeys(other *Reader) bool { return r.fingerprint == other.fingerprint }

// next reads the next entry into e, and reports whether there was one.
func (r *Reader) next(e *Entry) (ok bool, err error) {
	flags, err := r.in.ReadByte()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if r.entries++; err != nil || r.entries > MostEntries {
		return false, errDamaged
	}
	limit, err := r.in.ReadByte()
	if err != nil || int(limit) >= len(r.limits) {
		return false, errDamaged
	}
	*e = Entry{
		Kind: Kind(flags & kindBits), Limit: limit, Doubted: flags&flagDoubted != 0, Tells: flags&flagTells != 0, Cost: 1,
	}
	key, err := r.number(len(r.limits[limit].Limits) - 1)
	if err != nil {
		return false, err
	}
	e.Key = uint32(key)
	step, err := binary.ReadVarint(r.in)
	if err != nil {
		return false, errDamaged
	}
	if e.At = r.last + store.Instant(step); e.At < 0 || int64(e.At) > mostInstant {
		return false, errDamaged
	}
	if e.Kind != Unknown {
		r.last = e.At
	}
	if flags&flagOne == 0 {
		cost, err := r.number(store.MaxCount)
		if err != nil || cost == 0 {
			return false, errDamaged
		}
		e.Cost = uint32(cost)
	}
	if e.Tells {
		err = r.told(&e.Told, flags)
	}
	return err == nil, err
}

// mostInstant is far beyond every clock, so that computing with instants does not overflow.
const mostInstant = int64(1) << 53

// told reads what an answer told.
func (r *Reader) told(f *audit.Figures, flags byte) error {
	var failure error
	read := func() int64 {
		n, err := binary.ReadVarint(r.in)
		if err != nil {
			failure = errDamaged
		}
		return n
	}
	f.Used = read()
	if flags&flagSameSum == 0 {
		f.Remaining = read()
		r.sum = f.Used + f.Remaining
	} else {
		f.Remaining = r.sum - f.Used
	}
	f.ResetAfter = duration(read())
	if flags&flagNoRetry == 0 {
		f.RetryAfter = duration(read())
	}
	if flags&flagNoDelay == 0 {
		f.Delay = duration(read())
	}
	return failure
}
