package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/internal/published"
)

// nextCollector has the metrics of a published version that is tried beside the one in force. Without one they have no
// series. They begin at zero with each version and with each share. The labels are names of the configuration.
type nextCollector struct {
	tried                  func() *published.Trial
	version, calls, denied *prometheus.Desc
}

// WatchNext adds metrics about the version that is tried, which tried returns; nil for none.
func (m *Metrics) WatchNext(tried func() *published.Trial) {
	m.registry.MustRegister(&nextCollector{tried: tried,
		version: prometheus.NewDesc("limitctl_next_version", "The published version that is tried beside the one in force.", nil, nil),
		calls: prometheus.NewDesc("limitctl_next_takes_total",
			"Takes since a published version is tried beside the one in force, by what became of them.", []string{"outcome"}, nil),
		denied: prometheus.NewDesc("limitctl_next_denials_total",
			"Denials by the version that is tried, which the one in force did not make (anew), or would take back (no_longer), by limit.",
			[]string{"policy", "limit", "change"}, nil)})
}

// Describe implements [prometheus.Collector].
func (c *nextCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{c.version, c.calls, c.denied} {
		descriptions <- each
	}
}

// Collect implements [prometheus.Collector].
func (c *nextCollector) Collect(metrics chan<- prometheus.Metric) {
	t := c.tried()
	if t == nil || t.Ended() {
		return
	}
	metrics <- prometheus.MustNewConstMetric(c.version, prometheus.GaugeValue, float64(t.Plan.Version))
	count := func(what *prometheus.Desc, n int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(what, prometheus.CounterValue, float64(n), labels...)
	}
	f := t.Figures(0)
	if t.Plan.Share == 0 {
		count(c.calls, f.Judged-f.Anew-f.NoMore, "same")
		count(c.calls, f.Anew, "denied_anew")
		count(c.calls, f.NoMore, "no_longer_denied")
	} else {
		count(c.calls, f.ByNext-f.ByNextDenied, "allowed_by_next")
		count(c.calls, f.ByNextDenied, "denied_by_next")
		count(c.calls, f.Judged-f.Denied, "allowed_by_version_in_force")
		count(c.calls, f.Denied, "denied_by_version_in_force")
	}
	count(c.calls, f.Unjudged, "not_judged")
	for name, l := range t.Limits() {
		count(c.denied, l.Anew, name.Policy, name.Limit, "anew")
		if t.Plan.Share == 0 {
			count(c.denied, l.NoMore, name.Policy, name.Limit, "no_longer")
		}
	}
}
