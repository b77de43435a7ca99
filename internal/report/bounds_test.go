package report

import (
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// allocated returns how many bytes something allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A few bytes of JSON that stand for much are refused before they are much.
func TestBombs(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	list := func(element string, size int) string {
		return "[" + strings.Repeat(element+",", size/(len(element)+1)-1) + element + "]"
	}
	const head, more = `{"schema_version":1,"kind":"loadtest",`, "it holds more than any report"
	for name, test := range map[string]struct{ text, want string }{
		"runs":           {head + `"runs":` + list("{}", MaxSize-1000) + "}", more},
		"intervals":      {head + `"runs":[{"timeline":` + list("{}", MaxSize-1000) + "}]}", more},
		"some intervals": {head + `"runs":` + list(`{"timeline":`+list("{}", 390_000)+"}", MaxSize-1000) + "}", more},
		"empty limits":   {head + `"runs":[{"limits":` + list("{}", 390_000) + "}]}", more},
		"thresholds":     {head + `"runs":[],"thresholds":` + list("{}", MaxSize-1000) + "}", more},
		"nesting":        {head + `"runs":[` + strings.Repeat("[", MaxSize-1000), "exceeded max depth"},
		"another list":   {head + `"x":` + list("{}", MaxSize-1000) + "}", more},
		"a long number": {head + `"runs":[{"requests":` + strings.Repeat("9", 1_000_000) + "}]}",
			"cannot unmarshal number"},
	} {
		var err error
		took := allocated(func() { _, err = Read("x.json", []byte(test.text)) })
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: it says %.200q, want %q", name, err, test.want)
		}
		if took > 12*MaxSize {
			t.Errorf("%s: %d MB were allocated for it", name, took>>20)
		}
	}
}

// Small texts that stand for large histograms are refused before all are decoded, and
// what cannot be read again is not saved.
func TestHistogramsOfADocumentAreBounded(t *testing.T) {
	wide := hdrhistogram.New(1, math.MaxInt64/2, 3)
	d := New(LoadTest)
	for range maxHistograms/wide.ByteSize() + 1 {
		d.Runs = append(d.Runs,
			Run{Result: loadgen.Result{Histograms: &loadgen.Histograms{Latency: loadgen.Histogram{Histogram: wide}}}})
	}
	data, err := d.Save()
	if err == nil || !strings.Contains(err.Error(), "could not be read again") {
		t.Errorf("saving them: %v", err)
	}
	took := allocated(func() { _, err = Read("x.json", data) })
	if err == nil || !strings.Contains(err.Error(), "the histograms take more than 256 MB") {
		t.Errorf("reading them: %v", err)
	}
	if took > 2*maxHistograms {
		t.Errorf("%d MB were allocated", took>>20)
	}
	d.Runs = d.Runs[1:]
	if data, err = d.Save(); err == nil {
		_, err = Read("x.json", data)
	}
	if err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
}

// A histogram that takes much memory, whatever little is in it, is not decoded.
func TestHistogramsAreBounded(t *testing.T) {
	for significant := 1; significant <= 5; significant++ {
		encoded, err := loadgen.Histogram{Histogram: hdrhistogram.New(1, math.MaxInt64/2, significant)}.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		took := allocated(func() { err = new(loadgen.Histogram).UnmarshalText(encoded) })
		if (err == nil) != (significant <= 3) {
			t.Errorf("%d digits: %v", significant, err)
		}
		if took > 4<<20 {
			t.Errorf("%d digits: %d MB were allocated for it", significant, took>>20)
		}
	}
	for _, text := range []string{"x", "HISTFAAA", strings.Repeat("A", 100), strings.Repeat("=", 100)} {
		if new(loadgen.Histogram).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a histogram", text)
		}
	}
}
