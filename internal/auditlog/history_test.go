package auditlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/files"
)

// From an audit log of any length only the requested runs are held, and they are the latest.
func TestTheLatestRunsAreRead(t *testing.T) {
	var file strings.Builder
	for i := range 3*maxRuns + 7 {
		fmt.Fprintf(&file, "{\"time\":\"2026-01-02T03:04:05Z\",\"matched\":%d}\n", i)
	}
	for _, test := range []struct{ most, first, runs int }{
		{0, 2*maxRuns + 7, maxRuns},
		{1, 3*maxRuns + 6, 1},
		{3, 3*maxRuns + 4, 3},
		{4 * maxRuns, 0, 3*maxRuns + 7},
	} {
		h := must(Read(t.Context(), strings.NewReader(file.String()), Query{Most: test.most}))
		if len(h.Runs) != test.runs || h.Runs[0].Matched != int64(test.first) || h.Total != 3*maxRuns+7 {
			t.Errorf("at most %d: %d of %d runs, want %d; the first is %d, want %d", test.most, len(h.Runs), h.Total, test.runs,
				h.Runs[0].Matched, test.first)
		}
	}
}

func TestBadLinesAreCountedAndTheFirstAreTold(t *testing.T) {
	const run = "{\"time\":\"2026-01-02T03:04:05Z\"}\n"
	h, err := Read(t.Context(), strings.NewReader(run+strings.Repeat("[]\n", 7)+run), Query{})
	if err != nil || len(h.Runs) != 2 || h.Bad != 7 || len(h.FirstBad) != keptBad || h.FirstBad[0].Number != 2 {
		t.Errorf("it holds %+v, %v", h, err)
	}
}

func TestBoundedTexts(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", maxText)} {
		if got := Bounded(text); got != text {
			t.Errorf("%d bytes become %d", len(text), len(got))
		}
	}
	for i := range 4 { // the cut is in any part of a character
		text := strings.Repeat("x", i) + strings.Repeat("😀", maxText)
		if got := Bounded(text); !utf8.ValidString(got) || len(got) > maxText+len("…") || len(got) < maxText-3 ||
			!strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
			t.Errorf("after %d letters: %d bytes that end in %q", i, len(got), got[len(got)-8:])
		}
	}
}

// Half a line at the end of the file does not destroy the next entry.
func TestAnEntryAfterHalfALineIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"time":"2026`), 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		file := must(files.Append(path))
		w := NewFile(file)
		if err := w.Write(&Entry{Time: time.Unix(1, 0), Command: "reset", Matched: int64(n), Outcome: Done}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	file := must(files.Open(path))
	defer file.Close()
	h, err := Read(t.Context(), file, Query{})
	if err != nil || len(h.Runs) != 2 || h.Bad != 1 || h.Runs[1].Matched != 1 {
		t.Errorf("it holds %+v, %v", h, err)
	}
}
