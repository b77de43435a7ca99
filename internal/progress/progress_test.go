package progress

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestDescribe(t *testing.T) {
	for _, test := range []struct {
		done, total, matched int64
		noun                 string
		elapsed              time.Duration
		want                 string
	}{
		{0, 0, 0, "", 0, " 0/0"},
		{0, 100, 0, "matched", time.Second, " 0/100, 0 matched"},
		{50, 100, 7, "matched", time.Second, " 50/100, 7 matched, 50/s, 1s left"},
		{100, 100, 7, "", 2 * time.Second, " 100/100, 50/s"},
		{1_000_000, 40_000_000, 12_345, "matched", 2 * time.Second, " 1.0M/40.0M, 12.3k matched, 500.0k/s, 1m18s left"},
		{150, 100, 0, "", time.Second, " 150/100, 150/s"}, // more than were known
	} {
		got := describe(test.done, test.total, test.matched, test.noun, test.elapsed)
		if got != test.want {
			t.Errorf("Describe(%d, %d, %d, %q, %s) = %q, want %q", test.done, test.total, test.matched, test.noun,
				test.elapsed, got,
				test.want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 1049: "1.0k", 12_345: "12.3k",
		999_949: "999.9k",
		999_950: "1.0M", 40_000_000: "40.0M"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestWhatIsQuicklyDoneShowsNothing(t *testing.T) {
	var none *Bar
	none.Set(1, 2, 3)
	none.Close()
	var terminal bytes.Buffer
	bar := New(&terminal, "scanning", "matched")
	bar.begin = time.Now().Add(time.Hour) // as fast as possible
	bar.Set(1, 100, 1)
	bar.Set(100, 100, 1)
	bar.Close()
	if text := terminal.String(); text != "" {
		t.Errorf("it wrote %q", text)
	}
}

// Where there is no terminal, long work prints a line at most every ten seconds, and short work prints none.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		var due time.Time
		line := func(text string) { lines = append(lines, text) }
		bar := Lines(line, &due, "scanning", "matched")
		for done := int64(1); done <= 34; done++ { // in seconds
			time.Sleep(time.Second)
			if done < 13 || done > 21 {
				bar.Set(done, 100, 7)
			}
		}
		bar.Say(1, 2, " in words")
		time.Sleep(LineEvery)
		bar.Say(1, 2, " in words")
		bar.Close()
		for range 3 { // each too short for a line
			time.Sleep(4 * time.Second)
			Lines(line, &due, "resetting", "").Say(1, 2, " too")
		}
		want := []string{"scanning 10/100, 7 matched, 1/s, 1m30s left", "scanning 22/100, 7 matched, 1/s, 1m18s left",
			"scanning 30/100, 7 matched, 1/s, 1m10s left", "scanning in words", "resetting too"}
		if !slices.Equal(lines, want) {
			t.Errorf("the lines are %q, want %q", lines, want)
		}
	})
}
