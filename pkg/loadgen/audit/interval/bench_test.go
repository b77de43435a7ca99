package interval

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// BenchmarkObserve audits 100,000 requests a second, half of them too many, that take 5 ms each.
func BenchmarkObserve(b *testing.B) {
	for _, text := range []string{
		"token-bucket:1000/1s", "fixed-window:1000/1s", "fixed-window:1000/1s,from=first", "sliding-log:1000/1s", "sliding-counter:1000/1s",
		"sliding-counter:1000/1s,slices=10",
	} {
		b.Run(text, func(b *testing.B) {
			limit, _ := store.ParseLimit(text)
			limit, _ = limit.Normalize()
			const keys = 50
			random, s, a := rand.New(rand.NewPCG(1, 1)), newExact(limit), New(Options{Resolution: time.Millisecond, Skew: -1})
			for key := range keys {
				a.SetLimit(uint32(key), limit)
			}
			at := epoch
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				at += 10
				o := Observation{Key: random.Uint32N(keys), Sent: at - 5000, Answered: at, Cost: 1, Answer: Denied}
				if s.allows(o.Key, 1, at-2500) {
					o.Answer = Admitted
				}
				a.Observe(o)
				if i%2000 == 0 {
					a.Settle(at - 5000)
				}
			}
			a.Settle(maxInstant)
			if f := a.Finding(); f.OverAdmitted+f.UnderAdmitted > 0 {
				b.Errorf("%+v", f)
			}
		})
	}
}
