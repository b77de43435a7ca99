package report

import (
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// savedHistograms is the JSON form of Histograms.
type savedHistograms struct {
	Latency string `json:"latency_us,omitempty"`
	Service string `json:"service_us,omitempty"`
	Errors  string `json:"error_latency_us,omitempty"`
	Lag     string `json:"schedule_lag_us,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (h *Histograms) MarshalJSON() ([]byte, error) {
	saved := savedHistograms{
		Latency: encode(h.Latency), Service: encode(h.Service), Errors: encode(h.Errors), Lag: encode(h.Lag),
	}
	return json.Marshal(saved)
}

// UnmarshalJSON implements [json.Unmarshaler]. It takes bounded memory, for any
// text.
func (h *Histograms) UnmarshalJSON(text []byte) (err error) {
	var saved savedHistograms
	if err := json.Unmarshal(text, &saved); err != nil {
		return err
	}
	read := func(name, text string) (histogram *hdrhistogram.Histogram) {
		if text == "" || err != nil {
			return nil
		}
		if histogram, err = decode(text); err != nil {
			err = fmt.Errorf("the histogram of its %s cannot be read: %w", name, err)
		}
		return histogram
	}
	*h = Histograms{
		Latency: read("latency", saved.Latency), Service: read("service time", saved.Service),
		Errors: read("errors' latency", saved.Errors), Lag: read("schedule lag", saved.Lag),
	}
	return err
}

// size is how many bytes of memory the histograms take.
func (h *Histograms) size() int {
	if h == nil {
		return 0
	}
	size := 0
	for _, one := range []*hdrhistogram.Histogram{h.Latency, h.Service, h.Errors, h.Lag} {
		if one != nil {
			size += one.ByteSize()
		}
	}
	return size
}

// encode writes a histogram as text. No histogram is the empty text.
func encode(h *hdrhistogram.Histogram) string {
	if h == nil {
		return ""
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil { // it writes to memory, with a version that it knows
		panic(fmt.Sprintf("encoding a histogram: %v", err))
	}
	return string(text)
}

// digits is how exact the histograms of limitctl are, in significant digits. A
// histogram of five digits would take 50 MB even if it were empty.
const digits = 3

// decode reads what [encode] wrote, in bounded memory for any text.
func decode(text string) (*hdrhistogram.Histogram, error) {
	if precision(text) > digits {
		return nil, fmt.Errorf("it is more exact than %d digits", digits)
	}
	return hdrhistogram.Decode([]byte(text))
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

// QuantilesOf returns the quantiles of a histogram of microseconds, or nil if
// nothing was recorded in it.
func QuantilesOf(h *hdrhistogram.Histogram) *Quantiles {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	values := h.ValueAtPercentilesSlice([]float64{50, 90, 95, 99, 99.9, 99.99})
	return &Quantiles{
		P50: values[0], P90: values[1], P95: values[2], P99: values[3], P999: values[4], P9999: values[5], Max: h.Max(),
		Mean: int64(math.Round(h.Mean())),
	}
}

// TimeFigure is a quantile of times, their mean or their maximum.
type TimeFigure struct {
	// Name is as in JSON and in thresholds, and title as in tables.
	Name, Title string
	// Quantile is which one it is, from 0 to 1; 0 for the mean.
	Quantile float64
	drops    int // which of a table's columns go first where it is narrow
	of       func(*Quantiles) int64
}

// timeFigures returns all figures of a distribution of times, in the order of tables.
func timeFigures() []TimeFigure {
	return []TimeFigure{
		{"mean", "mean", 0, 2, func(q *Quantiles) int64 { return q.Mean }},
		{"p50", "p50", 0.5, 0, func(q *Quantiles) int64 { return q.P50 }},
		{"p90", "p90", 0.9, 4, func(q *Quantiles) int64 { return q.P90 }},
		{"p95", "p95", 0.95, 1, func(q *Quantiles) int64 { return q.P95 }},
		{"p99", "p99", 0.99, 0, func(q *Quantiles) int64 { return q.P99 }},
		{"p999", "p99.9", 0.999, 3, func(q *Quantiles) int64 { return q.P999 }},
		{"p9999", "p99.99", 0.9999, 5, func(q *Quantiles) int64 { return q.P9999 }},
		{"max", "max", 1, 0, func(q *Quantiles) int64 { return q.Max }},
	}
}

// Known returns the figure in microseconds, if there are times.
func (f *TimeFigure) Known(q *Quantiles) (us int64, known bool) {
	if q == nil {
		return 0, false
	}
	return f.of(q), true
}

// enoughForP9999 is from how many requests on the 99.99th percentile says more than the
// maximum.
const enoughForP9999 = 10_000
