package metrics

import "context"

// Round runs round n of [Metrics.Sample].
func (m *Metrics) Round(ctx context.Context, s Sampling, n int) { m.sampleOnce(ctx, &s, n) }
