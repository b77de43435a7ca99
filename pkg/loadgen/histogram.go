package loadgen

import (
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms are the distributions behind a result's quantiles, in microseconds.
//
// In JSON each is a text: the V2 compressed encoding of HdrHistogram in base64, which
// other HdrHistogram tools read, too. One that the run does not have is absent.
type Histograms struct {
	Latency      Histogram `json:"latency_us,omitzero"`
	Service      Histogram `json:"service_us,omitzero"`
	ErrorLatency Histogram `json:"error_latency_us,omitzero"`
	Lag          Histogram `json:"schedule_lag_us,omitzero"`
}

// Size is how many bytes of memory the histograms take.
func (h *Histograms) Size() (size int) {
	if h == nil {
		return 0
	}
	for _, one := range []Histogram{h.Latency, h.Service, h.ErrorLatency, h.Lag} {
		if one.Histogram != nil {
			size += one.ByteSize()
		}
	}
	return size
}

// Histogram is a histogram, or none, that writes itself as text.
type Histogram struct{ *hdrhistogram.Histogram }

// digits is how exact histograms are, in significant digits. One of five digits would take 50 MB even if it were empty.
const digits = 3

// newHistogram returns a histogram of microseconds up to an hour.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Hour.Microseconds(), digits)
}

// record adds a time to a histogram, rounded up to whole microseconds.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	microseconds := int64((d + time.Microsecond - 1) / time.Microsecond)
	_ = h.RecordValue(min(max(microseconds, 0), h.HighestTrackableValue()))
}

// MarshalText implements [encoding.TextMarshaler].
func (h Histogram) MarshalText() ([]byte, error) {
	if h.Histogram == nil {
		return nil, nil
	}
	return h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// UnmarshalText implements [encoding.TextUnmarshaler]. It takes bounded memory, for any text.
func (h *Histogram) UnmarshalText(text []byte) (err error) {
	if h.Histogram = nil; len(text) == 0 {
		return nil
	}
	if precision(string(text)) > digits {
		return fmt.Errorf("a histogram is more exact than %d digits", digits)
	}
	if h.Histogram, err = hdrhistogram.Decode(text); err != nil {
		return fmt.Errorf("a histogram cannot be read: %w", err)
	}
	return nil
}

// precision returns the significant digits that an encoded histogram says it has, 0 if
// it cannot be read: the first bytes of what is compressed say it.
func precision(text string) uint32 {
	const before, at = 8, 12 // what precedes the compressed part, and where in that it is
	encoded := base64.NewDecoder(base64.StdEncoding, strings.NewReader(text))
	if _, err := io.CopyN(io.Discard, encoded, before); err != nil {
		return 0
	}
	unpacked, err := zlib.NewReader(encoded)
	if err != nil {
		return 0
	}
	var header [at + 4]byte
	if _, err := io.ReadFull(unpacked, header[:]); err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(header[at:])
}
