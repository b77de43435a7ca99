package lab

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/experiment"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// outageOptions are the flags about who answers while the store is away.
type outageOptions struct {
	onError string
	breaker bool
}

func (o *outageOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.onError, "on-error", "",
		"answer while the store is away as a service would: `fail|allow|deny|local[=SHARE]` (default fail: an error, and counted)")
	cmd.Flags().BoolVar(&o.breaker, "breaker", false,
		"stop calling a store that is away, as a service with the configuration's breaker does")
	cmd.RegisterFlagCompletionFunc("on-error", cobra.FixedCompletions([]string{"fail", "allow", "deny", "local"},
		cobra.ShellCompDirectiveNoFileComp))
}

// settings returns the settings of the breaker of --breaker, or nil.
func (o *outageOptions) settings(g *cli.Globals) (*layers.Breaker, error) {
	if !o.breaker {
		return nil, nil
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	if c.Breaker == nil {
		return nil, cli.Usagef("--breaker needs a breaker, and the configuration disables it; change its field breaker")
	}
	return c.Breaker, nil
}

// wrapFlags are the flags about the layers around the store of an experiment.
type wrapFlags struct {
	replicas int
	wraps    []string
}

// Bounds of the layers.
const (
	maxReplicas = 1000
	maxLease    = 1_000_000
	maxStaleMax = time.Hour
	maxTerm     = time.Minute
)

func (o *wrapFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&o.replicas, "replicas", 1, "`N` instances of a service share the store, each with the wrappers of --wrap")
	flags.StringArrayVar(&o.wraps, "wrap", nil,
		"put a `WRAPPER` around the store, as a service can: denials[=MAX_STALE] remembers denials (default 1s), "+
			"lease[=UNITS[,TERM]] takes up to UNITS of a hot key ahead for TERM (default 1000,100ms); repeat it for both")
	cmd.RegisterFlagCompletionFunc("replicas", cobra.NoFileCompletions)
	cmd.RegisterFlagCompletionFunc("wrap",
		cobra.FixedCompletions([]string{"denials=1s", "lease=50"}, cobra.ShellCompDirectiveNoFileComp))
}

// parse reads the flags. Their order does not matter: a denial memory is always outside of leases.
func (o *wrapFlags) parse() (wrap experiment.Wrap, err error) {
	if o.replicas < 1 || o.replicas > maxReplicas {
		return wrap, cli.Usagef("--replicas %d is out of range; it must be from 1 to %d", o.replicas, maxReplicas)
	}
	wrap.Replicas = o.replicas
	leaseWords, denialWords := "", ""
	for _, text := range o.wraps {
		name, settings, given := strings.Cut(text, "=")
		if given && settings == "" {
			return wrap, cli.Usagef("--wrap %q ends with =; write a value, or leave = out", text)
		}
		switch name {
		case "denials":
			if wrap.Denials != nil {
				return wrap, cli.Usagef("--wrap denials is given twice; give it once")
			}
			wrap.Denials, denialWords = &layers.DenialMemory{MaxStale: time.Second}, text
			if given {
				if wrap.Denials.MaxStale, err = wrapDuration(text, settings, maxStaleMax); err != nil {
					return wrap, err
				}
			}
		case "lease":
			if wrap.Leases != nil {
				return wrap, cli.Usagef("--wrap lease is given twice; give it once")
			}
			if wrap.Leases, err = parseLease(text, settings); err != nil {
				return wrap, err
			}
			leaseWords = text
		default:
			return wrap, cli.Usagef("--wrap %q is unknown; it is denials[=MAX_STALE], such as denials=1s, or lease[=UNITS[,TERM]], "+
				"such as lease=50", text)
		}
	}
	for _, words := range []string{denialWords, leaseWords} {
		if words != "" {
			wrap.Words = append(wrap.Words, words)
		}
	}
	return wrap, nil
}

// parseLease reads UNITS[,TERM], both optional.
func parseLease(text, settings string) (*layers.Leases, error) {
	leases := &layers.Leases{Max: 1000, Term: 100 * time.Millisecond}
	if settings == "" {
		return leases, nil
	}
	units, term, hasTerm := strings.Cut(settings, ",")
	n, err := strconv.ParseInt(units, 10, 64)
	if err != nil || n < 2 || n > maxLease {
		return nil, cli.Usagef("--wrap %q: %q is not a number of units from 2 to %d; write it like lease=50 or lease=50,100ms", text, units,
			maxLease)
	}
	leases.Max = n
	if hasTerm {
		leases.Term, err = wrapDuration(text, term, maxTerm)
	}
	return leases, err
}

// wrapDuration reads a duration in the settings of a layer.
func wrapDuration(text, duration string, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(duration)
	if err != nil || d < time.Millisecond || d > most {
		return 0, cli.Usagef("--wrap %q: %q is not a duration from 1ms to %s, such as 500ms", text, duration, store.FormatPeriod(most))
	}
	return d, nil
}
