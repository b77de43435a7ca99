package probe

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

func TestDebug(t *testing.T) {
	for _, text := range []string{"sliding-log:50/30s", "sliding-counter:100/1m"} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{decider: newOurs(t, text), shortest: 200 * time.Microsecond, longest: 3 * time.Millisecond}
			s.random = rand.New(rand.NewPCG(7, 7))
			time.Sleep(time.Duration(s.chance() * float64(time.Hour)))
			config := Config{Budget: 3000, MaxTime: 10 * time.Minute, Workers: 16, Client: s}
			x := &explorer{session: newSession(t.Context(), &config, nil), d: &Discovery{Limit: config.Limit}}
			x.askAtOnce()
			x.follow()
			x.gather()
			limit, _ := limiter.ParseLimit(text)
			limit, _ = limit.Normalize()
			m := model{limit: limit}
			t.Log(text, x.counts, x.burst.admitted, len(x.events))
			for k, one := range x.evidence.h {
				for _, i := range contradicted(&m, one, middle, nil) {
					t.Log(k, i, one[i], one[max(0, i-1)], one[i].sent-one[0].sent)
				}
			}
		})
	}
}
