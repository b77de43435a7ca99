package envoyclient

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/limitctl/limitctl/internal/rls"
)

// asPublished converts a request to the published messages.
func asPublished(r *rls.Request) *rlsv3.RateLimitRequest {
	p := &rlsv3.RateLimitRequest{Domain: r.Domain, HitsAddend: r.Hits}
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		published := &common.RateLimitDescriptor{IsNegativeHits: d.Negative}
		for _, e := range d.Entries {
			published.Entries = append(published.Entries, &common.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
		}
		if d.HasHits {
			published.HitsAddend = wrapperspb.UInt64(d.Hits)
		}
		if d.HasLimit {
			published.Limit = &common.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: d.Limit.RequestsPerUnit, Unit: typev3.RateLimitUnit(d.Limit.Unit),
			}
			if d.Limit.Multiplier > 0 {
				published.Limit.UnitMultiplier = wrapperspb.UInt32(d.Limit.Multiplier)
			}
		}
		p.Descriptors = append(p.Descriptors, published)
	}
	return p
}

// forgetUnread removes from a published request what the server does not read.
func forgetUnread(p *rlsv3.RateLimitRequest) {
	p.ProtoReflect().SetUnknown(nil)
	for _, d := range p.Descriptors {
		d.ProtoReflect().SetUnknown(nil)
		for _, e := range d.Entries {
			e.ProtoReflect().SetUnknown(nil)
		}
		if d.HitsAddend != nil {
			d.HitsAddend.ProtoReflect().SetUnknown(nil)
		}
		if d.Limit != nil {
			d.Limit.ProtoReflect().SetUnknown(nil)
			if m := d.Limit.UnitMultiplier; m != nil {
				m.ProtoReflect().SetUnknown(nil)
				if m.Value == 0 { // it means the same as none
					d.Limit.UnitMultiplier = nil
				}
			}
		}
	}
}

// The server reads what the published decoder reads, except that it accepts texts that are not UTF-8, and has
// bounds.
func checkReading(t *testing.T, message []byte) {
	t.Helper()
	var published rlsv3.RateLimitRequest
	// The published decoder refuses texts that are not UTF-8. Without that check, it reads the same.
	wrong := proto.UnmarshalOptions{}.Unmarshal(message, &published)
	own, err := rls.ReadRequest(message)
	if errors.Is(err, rls.ErrTooManyDescriptors) || errors.Is(err, rls.ErrTooManyEntries) {
		return
	}
	if wrong != nil && strings.Contains(wrong.Error(), "UTF-8") {
		return
	}
	if (err != nil) != (wrong != nil) {
		t.Fatalf("%x: the server says %v, the published decoder %v", message, err, wrong)
	}
	if err != nil {
		return
	}
	forgetUnread(&published)
	if got := asPublished(own); !proto.Equal(got, &published) {
		t.Fatalf("%x is read as\n%v\nnot\n%v", message, got, &published)
	}
}

func TestRequestsAreReadAsPublished(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		return strings.Repeat(string(rune('a'+random.IntN(26))), []int{0, 1, 7, 127, 128, 300}[random.IntN(6)])
	}
	number := func() uint64 { return random.Uint64() >> random.IntN(64) }
	for range 2000 {
		r := rls.Request{Domain: text(), Hits: uint32(number())}
		for range random.IntN(4) {
			d := rls.Descriptor{Negative: random.IntN(2) == 0}
			for range random.IntN(4) {
				d.Entries = append(d.Entries, rls.Entry{Key: text(), Value: text()})
			}
			if d.HasHits = random.IntN(2) == 0; d.HasHits {
				d.Hits = number() * uint64(random.IntN(2))
			}
			if d.HasLimit = random.IntN(2) == 0; d.HasLimit {
				d.Limit = rls.LimitOverride{RequestsPerUnit: uint32(number()), Unit: int32(number()),
					Multiplier: uint32(number())}
			}
			r.Descriptors = append(r.Descriptors, d)
		}
		message, err := proto.Marshal(asPublished(&r))
		must(t, err)
		checkReading(t, message)
		own, err := rls.ReadRequest(message)
		if err != nil || !proto.Equal(asPublished(own), asPublished(&r)) {
			t.Fatalf("%+v is read as %+v, %v", r, own, err)
		}
		for len(message) > 0 && random.IntN(4) > 0 { // what is broken is refused by both
			message[random.IntN(len(message))] ^= 1 << random.IntN(8)
			checkReading(t, message)
		}
		// The published decoder reads the client's message as the same request.
		var read rlsv3.RateLimitRequest
		if err := proto.Unmarshal(rls.AppendRequest(nil, &r), &read); err != nil ||
			!proto.Equal(&read, asPublished(&r)) {
			t.Fatalf("%+v is written as %v, %v", r, &read, err)
		}
	}
}

// The server writes the bytes of the published marshaller.
func TestResponsesAreWrittenAsPublished(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		published := &rlsv3.RateLimitResponse{OverallCode: rlsv3.RateLimitResponse_Code(1 + random.IntN(2))}
		response := rls.Response{Overall: rls.Code(published.OverallCode)}
		own := rls.AppendOverall(nil, response.Overall)
		for range random.IntN(4) {
			s := rls.Status{Code: rls.Code(1 + random.IntN(2))}
			status := &rlsv3.RateLimitResponse_DescriptorStatus{Code: rlsv3.RateLimitResponse_Code(s.Code)}
			if random.IntN(3) > 0 {
				s.HasLimit, s.Name = true, strings.Repeat("n", []int{0, 10, 126, 127, 128, 20_000}[random.IntN(6)])
				s.RequestsPerUnit, s.Unit = random.Uint32()>>random.IntN(32), int32(random.IntN(8))
				s.Remaining = random.Uint32() >> random.IntN(32)
				s.HasReset, s.ResetSeconds, s.ResetNanos = true, random.Uint64()>>(2+random.IntN(60)),
					random.Uint32N(1e9)>>random.IntN(30)
				status.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{
					Name: s.Name, RequestsPerUnit: s.RequestsPerUnit,
					Unit: rlsv3.RateLimitResponse_RateLimit_Unit(s.Unit)}
				status.LimitRemaining = s.Remaining
				status.DurationUntilReset = &durationpb.Duration{
					Seconds: int64(s.ResetSeconds), Nanos: int32(s.ResetNanos)}
			}
			own = rls.AppendStatus(own, &s)
			response.Statuses = append(response.Statuses, s)
			published.Statuses = append(published.Statuses, status)
		}
		for range random.IntN(3) {
			value := strings.Repeat("v", random.IntN(300))
			own = rls.AppendHeader(own, "retry-after", value)
			response.Headers = append(response.Headers, rls.Header{Name: "retry-after", Value: value})
			published.ResponseHeadersToAdd = append(published.ResponseHeadersToAdd, &core.HeaderValue{
				Key: "retry-after", Value: value})
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(published)
		must(t, err)
		if string(own) != string(want) {
			t.Fatalf("%v is written as\n%x\nnot\n%x", published, own, want)
		}
		// The client reads what was written.
		if read, err := rls.ReadResponse(want); err != nil || !reflect.DeepEqual(read, &response) {
			t.Fatalf("%v is read as %+v, %v", published, read, err)
		}
	}
}
