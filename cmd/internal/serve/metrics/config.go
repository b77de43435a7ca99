package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// configMetrics are about the configuration in force.
type configMetrics struct {
	reloads          *prometheus.CounterVec // by result
	succeeded, stale prometheus.Gauge
	info             *prometheus.GaugeVec // by hash
}

func (c *configMetrics) register(r prometheus.Registerer, now time.Time) {
	c.reloads = prometheus.NewCounterVec(counter("config_reloads_total",
		"Times that the configuration was read again, since the start."), []string{"result"})
	c.succeeded = prometheus.NewGauge(gauge("config_last_success_timestamp_seconds",
		"When the configuration that is in force was read, as unix time."))
	c.stale = prometheus.NewGauge(gauge("config_stale",
		"1 if the configuration could not be read again, so that the one before is still in force."))
	c.info = prometheus.NewGaugeVec(gauge("config_info",
		"1; the label is the hash of the configuration in force, for comparing servers."), []string{"hash"})
	r.MustRegister(c.reloads, c.succeeded, c.stale, c.info)
	for _, result := range []string{"success", "failure"} {
		c.reloads.WithLabelValues(result)
	}
	c.succeeded.Set(seconds(now))
}

// Loaded sets the configuration with which the server begins.
func (m *Metrics) Loaded(hash string) {
	m.config.info.Reset()
	if hash != "" {
		m.config.info.WithLabelValues(hash).Set(1)
	}
	m.config.succeeded.Set(seconds(m.clock()))
	m.config.stale.Set(0)
}

// Reloaded counts a reload of the configuration, or its failure.
func (m *Metrics) Reloaded(hash string, err error) {
	if err != nil {
		m.config.reloads.WithLabelValues("failure").Inc()
		m.config.stale.Set(1)
		return
	}
	m.config.reloads.WithLabelValues("success").Inc()
	m.Loaded(hash)
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// WatchCertificate adds metrics about the certificate of TLS listeners: when it expires, and whether its files
// cannot be read again, which stale reports.
func (m *Metrics) WatchCertificate(expires func() time.Time, stale func() string) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(gauge("certificate_expiry_timestamp_seconds",
			"When the certificate that is in force expires, as unix time."), func() float64 { return seconds(expires()) }),
		prometheus.NewGaugeFunc(gauge("certificate_stale",
			"1 if the certificate's files cannot be read again, so that the one before is still in force."), func() float64 {
			if stale() != "" {
				return 1
			}
			return 0
		}))
}
