package layouts

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// pickleTimes writes a list of numbers as Python does in protocol 4, without a frame.
func pickleTimes(times []float64) string {
	text := []byte{pickleProto, 4, pickleList, pickleMemoize}
	if len(times) > 0 {
		text = append(text, pickleMark)
		for _, at := range times {
			text = binary.BigEndian.AppendUint64(append(text, pickleFloat), math.Float64bits(at))
		}
		text = append(text, pickleAppends)
	}
	return string(append(text, pickleStop))
}

// TestPickledTimes writes lists and reads them, and what was cut off.
func TestPickledTimes(t *testing.T) {
	for n := range 5 {
		want := []float64{4, 3, 2, 1}[:n]
		text := pickleTimes(want)
		if got, whole, ok := pickledTimes([]byte(text)); !ok || !whole || !slices.Equal(got, want) {
			t.Errorf("%v comes back as %v, %v, %v", want, got, whole, ok)
		}
		if got, whole, ok := pickledTimes([]byte(text[:len(text)-1])); !ok || whole || !slices.Equal(got, want) {
			t.Errorf("%v without its end is %v, %v, %v", want, got, whole, ok)
		}
	}
}

// TestDrfLongList: a list that was not read to its end is enough if it reaches past the period.
func TestDrfLongList(t *testing.T) {
	const storeKey = ":1:throttle_user_42"
	times := make([]float64, 2000)
	for i := range times {
		times[i] = 1_795_294_536 - float64(i)
	}
	whole := pickleTimes(times)
	for _, c := range []struct {
		period time.Duration
		used   int64
		known  bool
	}{{time.Minute, 60, true}, {time.Hour, 0, false}} {
		found := &Found{StoreKey: storeKey, Key: store.Key{Subject: "42", Name: "drf/user"}, Now: 1_795_294_536_000_000,
			Limit: store.Limit{Count: 100, Period: c.period}, Values: []Value{text(storeKey, whole[:4096], c.period)}}
		found.Values[0].Length = int64(len(whole))
		reading, err := decode(named("drf"), found)
		if err != nil || reading.Entries[0].UsedKnown() != c.known || reading.Entries[0].Used != c.used {
			t.Errorf("in %s: %+v, %v", c.period, reading, err)
		}
	}
}
