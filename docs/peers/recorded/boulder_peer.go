//go:build ignore

// This is boulder's rate limits over a Redis, for record.py. Its clock stands still during each answer, which
// contains it in µs.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"time"

	"github.com/jmhodges/clock"
	"github.com/letsencrypt/boulder/config"
	"github.com/letsencrypt/boulder/identifier"
	blog "github.com/letsencrypt/boulder/log"
	"github.com/letsencrypt/boulder/ratelimits"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// stopped is a clock that stands still until it is set.
type stopped struct {
	clock.Clock
	now time.Time
}

func (s *stopped) Now() time.Time                  { return s.now }
func (s *stopped) Since(t time.Time) time.Duration { return s.now.Sub(t) }

var cases = []struct {
	name         string
	count, burst int64
	period       time.Duration
	wait         float64
	states       int
}{
	{"NewRegistrationsPerIPAddress", 2, 3, 3 * time.Second, 3, 40},
	{"NewOrdersPerAccount", 300, 10, 60 * time.Second, 3, 40},
	{"LimitOverrideRequestsPerIPAddress", 7, 7, 5 * time.Second, 4, 40},
	{"FailedAuthorizationsPerDomainPerAccount", 5, 5, time.Hour, 3, 25},
	{"CertificatesPerDomain", 3, 20, 2 * time.Second, 5, 40},
	{"NewRegistrationsPerIPv6Range", 1, 1, time.Second, 1, 40},
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// transactions returns those of one request: the deciding ones, and those spent after that.
func transactions(b *ratelimits.TransactionBuilder, n int) (decide, spend []ratelimits.Transaction) {
	domain := identifier.ACMEIdentifiers{identifier.NewDNS("example.com")}
	switch cases[n].name {
	case "NewRegistrationsPerIPAddress":
		return must(b.NewAccountLimitTransactions(netip.MustParseAddr("203.0.113.1"))), nil
	case "NewRegistrationsPerIPv6Range":
		return must(b.NewAccountLimitTransactions(netip.MustParseAddr("2001:db8:1:2::3"))), nil
	case "NewOrdersPerAccount":
		return must(b.NewOrderLimitTransactions(12345, domain, false)), nil
	case "LimitOverrideRequestsPerIPAddress":
		return []ratelimits.Transaction{must(b.LimitOverrideRequestsPerIPAddressTransaction(netip.MustParseAddr("203.0.113.3")))}, nil
	case "CertificatesPerDomain":
		return must(b.NewOrderLimitTransactions(12345, domain, false)), must(b.CertificatesPerDomainSpendOnlyTransactions(12345, domain))
	}
	return must(b.FailedAuthorizationsPerDomainPerAccountCheckOnlyTransactions(12345, domain)),
		[]ratelimits.Transaction{must(b.FailedAuthorizationsPerDomainPerAccountSpendOnlyTransaction(12345, domain[0]))}
}

func main() {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:" + os.Args[len(os.Args)-1]}})
	now := &stopped{Clock: clock.New()}
	limiter := must(ratelimits.NewLimiter(now, ratelimits.NewRedisSource(ring, now, prometheus.NewRegistry()), prometheus.NewRegistry()))
	var builders []*ratelimits.TransactionBuilder
	var told []map[string]any
	for _, c := range cases {
		limits := ratelimits.LimitConfigs{c.name: {Burst: c.burst, Count: c.count, Period: config.Duration{Duration: c.period}}}
		builder := must(ratelimits.NewTransactionBuilder(limits, nil, prometheus.NewRegistry(), blog.NewMock()))
		builders = append(builders, builder)
		told = append(told, map[string]any{"name": c.name, "limit": fmt.Sprintf("%d/%s,burst=%d", c.count, c.period, c.burst),
			"period": c.wait, "states": c.states})
	}
	answer := json.NewEncoder(os.Stdout)
	answer.Encode(told)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var asked struct {
			Op   string
			Case int
		}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		now.now = time.Now().Truncate(time.Microsecond)
		decide, spend := transactions(builders[asked.Case], asked.Case)
		var decision *ratelimits.Decision
		if asked.Op == "peek" {
			for _, transaction := range decide { // all but one of them have no limit
				d := must(limiter.Check(context.Background(), transaction))
				if decision == nil || field(d, "resetIn") > 0 {
					decision = d
				}
			}
		} else {
			decision = must(limiter.BatchSpend(context.Background(), decide))
			if decision.Result(now.now) == nil && spend != nil {
				must(limiter.BatchSpend(context.Background(), spend))
			}
		}
		answer.Encode(map[string]any{"now": now.now.UnixMicro(), "allowed": decision.Result(now.now) == nil,
			"remaining": field(decision, "remaining"), "reset_ns": field(decision, "resetIn"), "retry_ns": field(decision, "retryIn")})
	}
}

// field returns a field of a decision, which it has only in words.
func field(d *ratelimits.Decision, name string) int64 {
	return reflect.ValueOf(d).Elem().FieldByName(name).Int()
}
