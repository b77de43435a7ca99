package rls

import (
	"reflect"
	"testing"
	"time"
)

// A message from the published marshaller. The module docs/envoy-client compares many more.
const published = "\n\x04edge\x12;\n\x1d\n\x0eremote_address\x12\v203.0.113.9\n\x0e\n\x04path\x12\x06/login" +
	"\x12\x04\b\a\x10\x03\x1a\x02\b\x02 \x01\x18\x03"

func TestReadRequest(t *testing.T) {
	want := &Request{Domain: "edge", Hits: 3, Descriptors: []Descriptor{{
		Entries: []Entry{{"remote_address", "203.0.113.9"}, {"path", "/login"}},
		Limit:   LimitOverride{RequestsPerUnit: 7, Unit: 3}, HasLimit: true, Hits: 2, HasHits: true, Negative: true,
	}}}
	got, err := ReadRequest([]byte(published))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range len(published) {
		if _, err := ReadRequest([]byte(published[:n])); err != nil && err != errNotAMessage {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	// A text that is not UTF-8 is accepted, since an error would let the request pass.
	if got, err := ReadRequest([]byte("\x0a\x02\xff\xfe")); err != nil || got.Domain != "\xff\xfe" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUnits(t *testing.T) {
	for period, want := range map[time.Duration]int32{time.Second: 1, time.Minute: 2, time.Hour: 3, day: 4, 30 * day: 5,
		365 * day: 6,
		7 * day:   7, 0: 0, 10 * time.Second: 0} {
		if got := UnitOf(period); got != want {
			t.Errorf("%s is unit %d", period, got)
		}
	}
	for limit, want := range map[LimitOverride]time.Duration{
		{Unit: 2}: time.Minute, {Unit: 1, Multiplier: 90}: 90 * time.Second, {}: 0,
		{Unit: -1}: 0, {Unit: 8}: 0, {Unit: 6, Multiplier: 1 << 31}: 0} {
		if got := limit.Period(); got != want {
			t.Errorf("%+v is %s", limit, got)
		}
	}
}
