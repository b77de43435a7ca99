package metrics

import "context"

// Round runs a round of [Metrics.Sample].
func (m *Metrics) Round(ctx context.Context, s Sampling) { m.sampleOnce(ctx, &s) }
