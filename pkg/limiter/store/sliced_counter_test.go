package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What a record of slices holds, byte by byte.
func TestRecordOfSlices(t *testing.T) {
	const at = 0x06123456789abc // in slice 0x06123456789abc / 100 ms, the last two bytes of which are 0x8bb9
	limit := normal(t, store.Limit{Algorithm: store.SlidingCounter, Count: 256, Period: time.Second, Slices: 10})
	var s, decoded store.State
	take(&s, limit, 7, at-200_000)
	take(&s, limit, 2, at)
	slice := uint32(at / 100_000 % 65536)
	want := slices.Concat([]byte("RL\x02\x06"), u32(256), u32(10), u56(1_000_000), u56(at),
		u16(0), u16(2), u32(0), u16(slice-2), u32(7), u16(slice), u32(9))
	record := s.AppendRecord(nil)
	if !slices.Equal(record, want) {
		t.Errorf("recorded as\n  %x\nnot\n  %x", record, want)
	}
	if err := decoded.DecodeRecord(record); err != nil || decoded.Limit != limit || decoded.Used(at) != 9 {
		t.Errorf("%+v, %v", decoded, err)
	}
	header, ring := want[:26], func(head, length, base uint32, entries ...uint32) []byte {
		b := slices.Concat(u16(head), u16(length), u32(base))
		for i := 0; i < len(entries); i += 2 {
			b = slices.Concat(b, u16(entries[i]), u32(entries[i+1]))
		}
		return b
	}
	with := func(at int, field ...byte) []byte {
		spoilt := slices.Clone(want)
		copy(spoilt[at:], field)
		return spoilt
	}
	damaged := func(problem string) string { return "a damaged limit record (" + problem + ")" }
	impossible := damaged("its ring holds impossible entries")
	for name, test := range map[string]struct {
		record []byte
		want   string // the error, "" if it is sound
	}{
		"of version 3": {with(2, 3), "a limit record of version 3, which this limitctl does not know"},
		"one slice":    {with(8, u32(1)...), damaged("1 slices of a kind that has several")},
		"slices that do not divide": {
			with(8, u32(7)...), damaged("a period of 1s cannot be cut into 7 slices of whole microseconds")},
		"the oldest there can be":    {slices.Concat(header, ring(0, 1, 0, slice-10, 9)), ""},
		"older than can be":          {slices.Concat(header, ring(0, 1, 0, slice-11, 9)), impossible},
		"newer than the record":      {slices.Concat(header, ring(0, 1, 0, slice+1, 9)), impossible},
		"more than was ever allowed": {slices.Concat(header, ring(0, 1, 0, slice, store.MaxCount+1)), impossible},
		"without a ring":             {header, damaged("26 bytes are not its length")},
		"as much as ever was allowed": {
			slices.Concat(header, ring(0, 2, 0, slice-10, store.MaxCount, slice, 2*store.MaxCount)), ""},
	} {
		got := ""
		if err := new(store.State).DecodeRecord(test.record); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func u16(n uint32) []byte { return u32(n)[2:] }
