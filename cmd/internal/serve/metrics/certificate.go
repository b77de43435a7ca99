package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
