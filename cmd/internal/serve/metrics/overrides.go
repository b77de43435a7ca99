package metrics

import "github.com/prometheus/client_golang/prometheus"

// WatchOverrides adds a metric that shows whether overrides cannot be read.
func (m *Metrics) WatchOverrides(stale func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(gauge("overrides_stale",
		"1 if operators' overrides cannot be read, so that new ones do not apply."), func() float64 {
		if stale() {
			return 1
		}
		return 0
	}))
}
