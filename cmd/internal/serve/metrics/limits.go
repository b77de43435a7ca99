package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// limitCollector has the metrics of the limits in force.
type limitCollector struct {
	*Metrics
	count, period, burst, info *prometheus.Desc
}

func newLimitCollector(m *Metrics) *limitCollector {
	describe := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("limitctl_"+name, help, append([]string{"policy", "limit"}, more...), nil)
	}
	return &limitCollector{
		Metrics: m,
		count:   describe("limit", "Units allowed per period, as configured, where no override applies."),
		period:  describe("limit_period_seconds", "Period of a limit, as configured."),
		burst:   describe("limit_burst", "Units that a limit allows at once, as configured."),
		info:    describe("limit_info", "1; the labels describe a limit, as configured.", "algorithm", "by", "shadow", "on_error"),
	}
}

// Describe implements [prometheus.Collector].
func (c *limitCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{c.count, c.period, c.burst, c.info} {
		descriptions <- each
	}
}

// Collect implements [prometheus.Collector].
func (c *limitCollector) Collect(metrics chan<- prometheus.Metric) {
	tell := func(what *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(what, prometheus.GaugeValue, value, labels...)
	}
	for _, p := range c.inForce.Load().settings.Policies {
		for i := range p.Limits {
			l := &p.Limits[i]
			tell(c.count, float64(l.Limit.Count), p.Name, l.Name)
			tell(c.period, l.Limit.InWindow(store.InstantOf(time.Now())).Period.Seconds(), p.Name, l.Name)
			tell(c.burst, float64(l.Limit.Capacity()), p.Name, l.Name)
			tell(c.info, 1, p.Name, l.Name, l.Limit.Algorithm.String(), strings.Join(l.By, ","),
				strconv.FormatBool(l.Shadow), p.OnError.String())
		}
	}
}
