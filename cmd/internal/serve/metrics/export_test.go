package metrics

import "context"

// Round is the n-th round of [Metrics.Sample].
func (m *Metrics) Round(ctx context.Context, s Sampling, n int) { m.sampleOnce(ctx, &s, n) }
