package cmd

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// loadHabits are flags of other load generators, such as k6, hey, vegeta, wrk and ab, and
// what to give instead. -c, which is the cost of a request in other commands, is none of
// loadtest's, since all of them call their concurrency so.
func loadHabits() map[string]string {
	habits := map[string]string{
		"c": "--workers N for so many requests at once, or --cost N for units", "z": "--duration 10s", "time": "--duration 10s",
		"i": "--requests N", "iterations": "--requests N", "total": "--requests N", "count": "--requests N",
		"qps": "--rate N", "rps": "--rate N", "R": "--rate N", "max-rate": "--rate N", "request-rate": "--rate N",
		"s": "--stages 10s:1000,10s:0", "stage": "--stages 10s:1000,10s:0", "ramp-up": "--stages 10s:1000,10s:0",
		"users": "--keys N", "subjects": "--keys N", "targets": "--replay FILE", "summary-export": "--save FILE",
		"summary": "--markdown FILE", "summary-markdown": "--markdown FILE", "junit-xml": "--junit FILE", "junitxml": "--junit FILE",
		"junitfile": "--junit FILE", "report": "--html FILE", "assert": "--threshold 'p99<5ms'", "fail-fast": "--abort-on-fail",
		"random-seed": "--seed N", "data": "--body TEXT", "data-raw": "--body TEXT", "data-binary": "--body @FILE", "json": "--body TEXT",
		"D": "--body @FILE", "body-file": "--body @FILE", "request": "--method METHOD", "m": "--method METHOD",
		"T": "--header 'Content-Type: …'", "A": "--header 'Accept: …'", "user": "--header 'Authorization: Basic …'",
		"user-agent": "--header 'User-Agent: …'", "cookie": "--header 'Cookie: …'", "h2": "--http2", "h2c": "--http2",
		"disable-keepalive": "--no-keepalive", "keepalive": "--no-keepalive", "tls-skip-verify": "--insecure",
		"insecure-skip-tls-verify": "--insecure", "root-certs": "--cacert FILE", "unix-sock": "--unix-socket PATH",
	}
	for _, name := range []string{"vus", "u", "concurrency", "connections", "threads", "t", "max-workers", "max-vus", "clients"} {
		habits[name] = "--workers N"
	}
	return habits
}

// rateFlag is a number of requests a second. It is written as a number, or as vegeta's
// users do: 500/s, 500/1s, 30000/1m.
type rateFlag float64

// Set implements pflag.Value.
func (r *rateFlag) Set(text string) error {
	number, per, divided := strings.Cut(text, "/")
	rate, err := strconv.ParseFloat(number, 64)
	period := time.Second
	if divided {
		var perErr error
		if period, perErr = store.ParsePeriod(per); perErr != nil || period <= 0 {
			return errRate
		}
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		return err
	case err != nil:
		return errRate
	}
	*r = rateFlag(rate / period.Seconds())
	return nil
}

var errRate = usagef("write a number of requests a second such as 500, or 500/s, or 30000/1m")

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// String implements pflag.Value. It is empty for no rate, so that help shows no default.
func (r *rateFlag) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'f', -1, 64)
}

// Type implements pflag.Value.
func (r *rateFlag) Type() string { return "rate" }

// valueHint is what might have been meant by a value that a flag does not take, or "".
func valueHint(cmd *cobra.Command, complaint string) string {
	found := wrongValue().FindStringSubmatch(complaint)
	if found == nil {
		return ""
	}
	value, flag := found[1], found[2]
	switch f := cmd.Flags().Lookup(flag); {
	case f == nil:
	case f.Value.Type() == "duration":
		if n, err := strconv.ParseFloat(value, 64); err == nil && n > 0 {
			return "; did you mean " + value + "s?"
		}
	case flag == "output" && strings.ContainsAny(value, "=./") && cmd.Flags().Lookup("save") != nil:
		return "; --save FILE writes the report to a file"
	}
	return ""
}
