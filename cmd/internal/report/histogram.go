package report

import (
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms are the distributions behind a run's quantiles, in microseconds. They
// allow runs to be merged. A histogram that the run does not have is nil.
//
// In JSON each is a text: the V2 compressed encoding of HdrHistogram in base64, which
// other HdrHistogram tools read, too.
type Histograms struct {
	Latency, Service, Errors, Lag *hdrhistogram.Histogram
	// ByDecider is the latency of what each decider answered, by its name.
	ByDecider map[string]*hdrhistogram.Histogram
}

// distribution is where a run has the quantiles of some times, and their histogram.
type distribution struct {
	quantiles **Quantiles
	histogram **hdrhistogram.Histogram
}

// distributions are all times of a run, those of each decider aside.
func (r *Run) distributions() [4]distribution {
	h := r.Histograms
	if h == nil {
		h = new(Histograms)
	}
	return [...]distribution{{&r.Latency, &h.Latency}, {&r.Service, &h.Service}, {&r.ErrorLatency, &h.Errors}, {&r.Lag, &h.Lag}}
}

// AddDecider adds the latency of what a decider answered.
func (h *Histograms) AddDecider(name string, latency *hdrhistogram.Histogram) {
	if h.ByDecider == nil {
		h.ByDecider = map[string]*hdrhistogram.Histogram{}
	}
	h.ByDecider[name] = latency
}

// savedHistograms is the JSON form of Histograms.
type savedHistograms struct {
	Latency string `json:"latency_us,omitempty"`
	Service string `json:"service_us,omitempty"`
	Errors  string `json:"error_latency_us,omitempty"`
	Lag     string `json:"schedule_lag_us,omitempty"`

	ByDecider map[string]string `json:"by_decider,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (h *Histograms) MarshalJSON() ([]byte, error) {
	saved := savedHistograms{
		Latency: encode(h.Latency), Service: encode(h.Service), Errors: encode(h.Errors), Lag: encode(h.Lag), ByDecider: map[string]string{},
	}
	for by, histogram := range h.ByDecider {
		saved.ByDecider[by] = encode(histogram)
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
	if len(saved.ByDecider) > mostDeciders {
		return fmt.Errorf("it has histograms of %d deciders, and there are not that many", len(saved.ByDecider))
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
		ByDecider: map[string]*hdrhistogram.Histogram{},
	}
	for by, text := range saved.ByDecider {
		h.ByDecider[by] = read("latency by decider", text)
	}
	return err
}

// size is how many bytes of memory the histograms take.
func (h *Histograms) size() int {
	if h == nil {
		return 0
	}
	size := 0
	for _, one := range slices.AppendSeq([]*hdrhistogram.Histogram{h.Latency, h.Service, h.Errors, h.Lag}, maps.Values(h.ByDecider)) {
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

// curvePoint is one point of a percentile curve.
type curvePoint struct {
	nines float64 // log10(1/(1-quantile)): 0 is the least, 1 is p90, 2 is p99, 3 is p99.9
	value int64   // µs
}

// curveOf returns the percentile curve of a histogram, as far out as it has values
// to tell apart: with a thousand of them there is nothing to say of p99.99.
func curveOf(h *hdrhistogram.Histogram) []curvePoint {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	const steps = 32 // for each nine
	last := math.Log10(float64(h.TotalCount()))
	var points []curvePoint
	var percentiles []float64
	for i := 0; ; i++ {
		nines := float64(i) / steps
		if nines > last {
			break
		}
		points = append(points, curvePoint{nines: nines})
		percentiles = append(percentiles, 100*(1-math.Pow(10, -nines)))
	}
	for i, value := range h.ValueAtPercentilesSlice(percentiles) {
		points[i].value = value
	}
	if last > points[len(points)-1].nines {
		points = append(points, curvePoint{nines: last, value: h.Max()})
	}
	return points
}

// curveOfQuantiles is the little that a few quantiles say of the curve.
func curveOfQuantiles(q *Quantiles) []curvePoint {
	if q == nil {
		return nil
	}
	points := []curvePoint{{math.Log10(2), q.P50}, {1, q.P90}}
	if q.P95 > 0 {
		points = append(points, curvePoint{-math.Log10(1 - 0.95), q.P95})
	}
	return append(points, curvePoint{2, q.P99}, curvePoint{3, q.P999})
}
