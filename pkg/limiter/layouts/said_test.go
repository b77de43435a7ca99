package layouts

import (
	"errors"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]store.Limit{
		"10/1m":               {Count: 10, Period: time.Minute},
		"10/1m,burst=20":      {Count: 10, Period: time.Minute, Burst: 20},
		"fixed-window:10/1m":  {Algorithm: store.FixedWindow, Count: 10, Period: time.Minute},
		"10":                  {Count: 10},
		"token-bucket:10":     {Algorithm: store.TokenBucket, Count: 10},
		"10,burst=20":         {Count: 10, Burst: 20},
		"leaky-bucket:10/30s": {Algorithm: store.LeakyBucket, Count: 10, Period: 30 * time.Second},
	} {
		if got, err := ParseLimit(text); err != nil || got != want {
			t.Errorf("%q is read as %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":        `limit "" is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10`,
		"ten":     `limit "ten" is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10`,
		"0":       `limit "0" is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10`,
		"1m":      `limit "1m" is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10`,
		"nosuch:": `limit "nosuch:" is neither COUNT/PERIOD, such as 10/1m, nor a COUNT, such as 10`,
	} {
		if _, err := ParseLimit(text); !errors.Is(err, store.ErrInvalid) || err.Error() != want {
			t.Errorf("%q: the error is %v, want %s", text, err, want)
		}
	}
}
