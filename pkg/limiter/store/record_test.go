package store_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// take charges s if it fits, as a store would.
func take(s *store.State, limit store.Limit, cost int64, now store.Instant) (allowed bool) {
	return act(store.Take, s, limit, cost, now).Allowed
}

func act(op store.Op, s *store.State, limit store.Limit, cost int64, now store.Instant) store.Decision {
	var decision [1]store.Decision
	_, _ = store.Decide(op, []store.Request{{Limit: limit, Cost: cost}}, []*store.State{s}, decision[:], nil, now)
	return decision[0]
}

func normal(t rapid.TB, limit store.Limit) store.Limit {
	limit, err := limit.Normalize()
	must(t, err)
	return limit
}

// Records outlive the program that wrote them and are read by Lua, too, so their bytes must never change.
func TestRecordLayout(t *testing.T) {
	const at = store.Instant(0x06123456789abc)
	for _, test := range []struct {
		algorithm store.Algorithm
		burst     int64
		want      string
	}{
		//                          RL  version, algorithm  count     burst     period          time           state
		{store.TokenBucket, 513, "524c" + "0101" + "00000100" + "00000201" + "000000000f4240" + "06123456789abc" +
			/* units */ "00000008" + /* fraction */ "000000000f4040"},
		{store.LeakyBucket, 256, "524c" + "0102" + "00000100" + "00000100" + "000000000f4240" + "06123456789abc" +
			"00000008" + "000000000f4040"},
		{store.FixedWindow, 256, "524c" + "0103" + "00000100" + "00000100" + "000000000f4240" + "06123456789abc" +
			/* units */ "00000009"},
		{store.SlidingLog, 256, "524c" + "0104" + "00000100" + "00000100" + "000000000f4240" + "06123456789abc" +
			/* head, length, base */ "00000000" + "00000002" + "000000" +
			/* instant, sum */ "06123456789aba" + "000007" + "06123456789abc" + "000009"},
		{store.SlidingCounter, 256, "524c" + "0105" + "00000100" + "00000100" + "000000000f4240" + "06123456789abc" +
			/* units, previous */ "00000009" + "00000000"},
	} {
		var s store.State
		limit := normal(t, store.Limit{Algorithm: test.algorithm, Count: 256, Period: time.Second, Burst: test.burst})
		take(&s, limit, 7, at-2)
		take(&s, limit, 2, at)
		if got := hex.EncodeToString(s.AppendRecord(nil)); got != test.want {
			t.Errorf("a %s is recorded as\n  %s\nnot\n  %s", test.algorithm, got, test.want)
		}
		if got := s.AppendRecord([]byte("before")); !bytes.HasPrefix(got, []byte("beforeRL")) {
			t.Errorf("the record is not appended: %q", got)
		}
		var decoded store.State
		record, _ := hex.DecodeString(test.want)
		if err := decoded.DecodeRecord(record); err != nil {
			t.Errorf("%s: %v", test.algorithm, err)
		} else if decoded.Limit != limit || decoded.Time != at || decoded.Used(at) != 9 {
			t.Errorf("%s: %+v, %d used", test.algorithm, decoded, decoded.Used(at))
		}
	}
}

// record is the parts of a record, to build ones that no State makes.
type record struct {
	magic              string
	version, algorithm byte
	count, burst       uint32
	period, at         uint64 // of 7 bytes
	state              []byte
}

// recordOf is a valid record of that algorithm, to be spoilt.
func recordOf(algorithm store.Algorithm, state ...[]byte) record {
	return record{"RL", 1, byte(algorithm), 10, 10, 1_000_000, 5_000_000, slices.Concat(state...)}
}

func (r record) bytes() []byte {
	b := append([]byte(r.magic), r.version, r.algorithm)
	return slices.Concat(b, u32(r.count), u32(r.burst), u56(r.period), u56(r.at), r.state)
}

func (r record) with(spoil func(*record)) record {
	spoil(&r)
	return r
}

func u32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
func u56(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n)[1:] }
func u24(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n&(1<<24-1))[1:] }

// ring is the state of a log: head, length and base, then instants and sums.
func ring(head, length, base uint32, entries ...uint64) []byte {
	b := slices.Concat(u32(head), u32(length), u24(base))
	for i := 0; i < len(entries); i += 2 {
		b = slices.Concat(b, u56(entries[i]), u24(uint32(entries[i+1])))
	}
	return b
}

func TestDecodeRecord(t *testing.T) {
	const (
		first, last = 4_500_000, 5_000_000
		damagedLog  = "a damaged limit record (its ring holds impossible entries)"
	)
	bucket := recordOf(store.TokenBucket, u32(9), u56(999_999))
	window := recordOf(store.FixedWindow, u32(9))
	log := recordOf(store.SlidingLog)
	logOf := func(state []byte) []byte { return slices.Concat(log.bytes(), state) }
	for _, test := range []struct {
		name   string
		record []byte
		want   string // the error, or what is used
	}{
		{"nothing", nil, "0 bytes that are not a limit record"},
		{"long text", bytes.Repeat([]byte("x"), 40), "40 bytes that are not a limit record"},
		{"other magic", bucket.with(func(r *record) { r.magic = "RK" }).bytes(),
			"37 bytes that are not a limit record"},
		{"half a header", bucket.bytes()[:25], "25 bytes that are not a limit record"},
		{"version 2", bucket.with(func(r *record) { r.version = 2 }).bytes(),
			"a limit record of version 2, which this limitctl does not know"},
		{"no algorithm", bucket.with(func(r *record) { r.algorithm = 0 }).bytes(),
			"a damaged limit record (unknown algorithm number 0; there are 1 to 5)"},
		{"count too great", bucket.with(func(r *record) { r.count = store.MaxCount + 1 }).bytes(),
			"a damaged limit record (count 1000000001 of a token-bucket limit is out of range; it must be from 1 to " +
				"1000000000)"},
		{"burst of a window", window.with(func(r *record) { r.burst = 11 }).bytes(),
			"a damaged limit record (a fixed-window limit has no burst; leave it out, its count of 10 is allowed at " +
				"once)"},
		{"period too long", bucket.with(func(r *record) { r.period = 1<<56 - 1 }).bytes(),
			"a damaged limit record (period 8784h0m0.000001s is out of range; it must be from 1ms to 366d)"},
		{"latest time", bucket.with(func(r *record) { r.at = 1<<52 - 1 }).bytes(), "10"},
		{"time too late", bucket.with(func(r *record) { r.at = 1 << 52 }).bytes(),
			"a damaged limit record (its time is out of range)"},

		{"bucket", bucket.bytes(), "10"},
		{"bucket too long", append(bucket.bytes(), 0), "a damaged limit record (38 bytes are not its length)"},
		{"full bucket", recordOf(store.LeakyBucket, u32(10), u56(0)).bytes(), "10"},
		{"bucket above its burst", recordOf(store.LeakyBucket, u32(10), u56(1)).bytes(),
			"a damaged limit record (its level is above its burst)"},
		{"bucket of a whole fraction", recordOf(store.TokenBucket, u32(9), u56(1_000_000)).bytes(),
			"a damaged limit record (its fraction is not below 1)"},

		{"window above its count", recordOf(store.FixedWindow, u32(store.MaxCount)).bytes(), "1000000000"},
		{"window above all counts", recordOf(store.FixedWindow, u32(store.MaxCount+1)).bytes(),
			"a damaged limit record (its usage is out of range)"},
		{"counter above all counts", recordOf(store.SlidingCounter, u32(store.MaxCount+1), u32(0)).bytes(),
			"a damaged limit record (its usage is out of range)"},

		{"log", logOf(ring(0, 2, 0, first, 3, last, 7)), "7"},
		{"log without entries", logOf(ring(0, 0, 0)), "0"},
		{"log with room in its ring", logOf(ring(0, 1, 0, first, 3, 0, 0, 0, 0)), "3"},
		{"log whose ring wraps", logOf(ring(2, 2, 0, last, 7, 0, 0, first, 3)), "7"},
		{"log whose sums wrap", logOf(ring(0, 2, 1<<24-2, first, 1, last, 5)), "7"},
		{"log longer than its ring", logOf(ring(0, 2, 0, first, 3)),
			"a damaged limit record (its ring does not fit its length)"},
		{"log with its head outside", logOf(ring(1, 1, 0, first, 3)),
			"a damaged limit record (its ring does not fit its length)"},
		{"log out of order", logOf(ring(0, 2, 0, last, 3, first, 7)),
			"a damaged limit record (its ring is out of order)"},
		{"log newer than its record", logOf(ring(0, 1, 0, last+1, 3)), damagedLog},
		{"log entry of no units", logOf(ring(0, 2, 0, first, 3, last, 3)), damagedLog},
		{"log of too many units together", logOf(ring(0, 2, 0, first, store.MaxSlidingLogCount, last,
			store.MaxSlidingLogCount+1)), damagedLog},
		{"log of as many units as may be", logOf(ring(0, 2, 0, first, 1, last, store.MaxSlidingLogCount)), "1000000"},
		{"log whose sums fall", logOf(ring(0, 2, 0, first, 3, last, 2)), damagedLog},
	} {
		s := store.State{Limit: store.Limit{Algorithm: store.FixedWindow, Count: 1, Period: 1}, Units: 5}
		err := s.DecodeRecord(test.record)
		got := fmt.Sprint(s.Used(s.Time))
		if err != nil {
			got = err.Error()
			if !reflect.DeepEqual(s, store.State{}) {
				t.Errorf("%s: %+v comes with an error", test.name, s)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %s\nnot %s", test.name, got, test.want)
		}
	}
}

// The limit can be read off the beginning of a record; too little of it is an error, not a limit of zeros.
func TestDecodeRecordLimit(t *testing.T) {
	for _, algorithm := range store.Algorithms() {
		var s store.State
		limit := normal(t, store.Limit{Algorithm: algorithm, Count: 1000, Period: 90 * time.Second})
		take(&s, limit, 5, 5_000_000)
		record := s.AppendRecord(nil)
		for size := range len(record) + 1 {
			got, err := store.DecodeRecordLimit(record[:size])
			if size < 26 {
				if err == nil || got != (store.Limit{}) {
					t.Errorf("%d bytes of a %s: %+v, %v", size, algorithm, got, err)
				}
			} else if err != nil || got != limit {
				t.Errorf("%d bytes of a %s: %+v, %v", size, algorithm, got, err)
			}
			if err := new(store.State).DecodeRecord(record[:size]); (err == nil) != (size == len(record)) {
				t.Errorf("%d of %d bytes of a %s: %v", size, len(record), algorithm, err)
			}
		}
	}
	_, err := store.DecodeRecordLimit(recordOf(0, u32(1), u56(0)).bytes())
	if err == nil || !strings.HasPrefix(err.Error(), "a damaged limit record (") {
		t.Error(err)
	}
}

func decode(t interface{ Fatalf(string, ...any) }, record []byte) *store.State {
	s := new(store.State)
	if err := s.DecodeRecord(record); err != nil {
		t.Fatalf("%x: %v", record, err)
	}
	return s
}

// checkSameDecisions fails unless two records lead to the same decisions and
// the same records after them, whatever is asked of them.
func checkSameDecisions(t interface{ Fatalf(string, ...any) }, a, b []byte) {
	s := decode(t, a)
	own, period := s.Limit, store.Instant(s.Limit.Period/time.Microsecond)
	raised := own
	if raised.Count *= 2; raised.Count <= store.MaxSlidingLogCount {
		raised.Burst = max(raised.Burst, raised.Count)
	} else {
		raised = own
	}
	other := store.Limit{Algorithm: store.SlidingLog, Count: 100, Period: 700 * time.Millisecond, Burst: 100}
	unused := s.UnusedAt(s.Time)
	for _, now := range []store.Instant{
		s.Time - 1, s.Time, s.Time + 1, s.Time + period/3, s.Time + period, s.Time + period + period/2, unused - 1,
		unused,
	} {
		for _, op := range []store.Op{store.Peek, store.Take, store.Refund} {
			for _, limit := range []store.Limit{own, raised, other} {
				for _, cost := range []int64{1, limit.Capacity() - 1, limit.Capacity()} {
					if cost < 1 {
						continue
					}
					sa, sb := decode(t, a), decode(t, b)
					da, db := act(op, sa, limit, cost, now), act(op, sb, limit, cost, now)
					if da != db {
						t.Fatalf("%s of %d under %s at %d: %+v\nand %+v\nof %x\nand %x", op, cost, limit, now, da, db,
							a, b)
					}
					if sa.IsZero() != sb.IsZero() {
						t.Fatalf("%s of %d under %s at %d: unused %t and %t", op, cost, limit, now, sa.IsZero(),
							sb.IsZero())
					}
					if sa.IsZero() {
						continue
					}
					after := sa.AppendRecord(nil)
					if !bytes.Equal(after, sb.AppendRecord(nil)) {
						t.Fatalf("%s of %d under %s at %d: %x\nand %x", op, cost, limit, now, after,
							sb.AppendRecord(nil))
					}
					if max(now, s.Time) < 1<<52 {
						decode(t, after) // what a decision leaves can be read again
					}
				}
			}
		}
	}
}

func checkDecodeRecord(t interface{ Fatalf(string, ...any) }, record []byte) {
	var s store.State
	limit, limitErr := store.DecodeRecordLimit(record)
	if err := s.DecodeRecord(record); err != nil {
		if strings.ContainsAny(err.Error(), "\n\x00\x1b") {
			t.Fatalf("control characters in %q", err)
		}
		if !s.IsZero() {
			t.Fatalf("%+v comes with an error", s)
		}
		return
	}
	if limitErr != nil || limit != s.Limit {
		t.Fatalf("limit %+v, %v of %x", limit, limitErr, record)
	}
	if normal, err := limit.Normalize(); err != nil || normal != limit {
		t.Fatalf("%+v is no normalized limit: %v", limit, err)
	}
	again := s.AppendRecord(nil)
	if !bytes.Equal(decode(t, again).AppendRecord(nil), again) {
		t.Fatalf("%x changes each time it is written", again)
	}
	checkSameDecisions(t, record, again)
}

func FuzzRecord(f *testing.F) {
	for _, algorithm := range store.Algorithms() {
		var s store.State
		limit := normal(f, store.Limit{Algorithm: algorithm, Count: 100, Period: time.Second})
		for i := range store.Instant(3) {
			take(&s, limit, 20, 1_700_000_000_000_000+i*300_000)
		}
		f.Add(s.AppendRecord(nil))
		if algorithm.HasSlices() {
			limit.Slices = 10
			take(&s, limit, 5, 1_700_000_000_900_000)
			f.Add(s.AppendRecord(nil))
		}
	}
	f.Add([]byte{})
	f.Add(slices.Concat(recordOf(store.SlidingLog).bytes(), ring(2, 2, 1<<24-2, 5_000_000, 5, 0, 0, 4_500_000, 1)))
	f.Add(recordOf(store.SlidingCounter, u32(4), u32(5)).bytes())
	f.Add(recordOf(store.LeakyBucket, u32(10), u56(0)).with(func(r *record) { r.at = 1<<52 - 1 }).bytes())
	f.Fuzz(func(t *testing.T, record []byte) { checkDecodeRecord(t, record) })
}

// Lua writes into a ring with room, whose head and sums run on; this log and the one that Go writes are the same.
func TestRecordOfAnyRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := recordOf(store.SlidingLog)
		log.count, log.burst = 1_000_000, 1_000_000
		capacity := rapid.IntRange(1, 20).Draw(t, "capacity")
		length := rapid.IntRange(0, capacity).Draw(t, "length")
		head := rapid.IntRange(0, capacity-1).Draw(t, "head")
		base := rapid.Uint32Range(0, 1<<24-1).Draw(t, "base")
		rotated, straight := make([]uint64, 2*capacity), []uint64{}
		for i := range rotated {
			rotated[i] = rapid.Uint64Range(0, 1<<24-1).Draw(t, "unused")
		}
		at, sum := uint64(4_000_000), uint64(0)
		for i := range length {
			at += rapid.Uint64Range(1, 40_000).Draw(t, "later")
			sum += rapid.Uint64Range(1, 40_000).Draw(t, "units")
			slot := (head + i) % capacity
			rotated[2*slot], rotated[2*slot+1] = at, uint64(base)+sum
			straight = append(straight, at, sum)
		}
		a := slices.Concat(log.bytes(), ring(uint32(head), uint32(length), base, rotated...))
		b := slices.Concat(log.bytes(), ring(0, uint32(length), 0, straight...))
		if got := decode(t, a).AppendRecord(nil); !bytes.Equal(got, b) {
			t.Fatalf("%x is written %x\nnot %x", a, got, b)
		}
		checkSameDecisions(t, a, b)
	})
}
