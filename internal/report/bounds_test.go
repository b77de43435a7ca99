package report

import (
	"runtime"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
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
