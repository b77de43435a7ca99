package test

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// wrapFlags are the flags about what is around the store of a simulation.
type wrapFlags struct {
	replicas int
	wraps    []string
}

func (o *wrapFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	cli.NumberFlag(flags, &o.replicas, "replicas", "", 1, "`N` instances of a service share the store, each with the wrappers of --wrap")
	flags.StringArrayVar(&o.wraps, "wrap", nil,
		"put a `WRAPPER` around the store, as a service can: denials[=MAX_STALE] remembers denials (default 1s), "+
			"lease[=UNITS[,TERM]] takes up to UNITS of a hot key ahead for TERM (default 1000,100ms); repeat it for both")
	cmd.RegisterFlagCompletionFunc("replicas", cobra.NoFileCompletions)
	cmd.RegisterFlagCompletionFunc("wrap",
		cobra.FixedCompletions([]string{"denials=1s", "lease=50"}, cobra.ShellCompDirectiveNoFileComp))
}

// parse reads the flags. Their order does not matter: a denial memory is always outside of leases.
func (o *wrapFlags) parse() (wrap experiment.Wrap, err error) {
	if o.replicas < 1 || o.replicas > 1000 || o.replicas > 1 && len(o.wraps) == 0 {
		return wrap, cli.Usagef("--replicas must be from 1 to 1000, and needs a --wrap")
	}
	wrap.Replicas = o.replicas
	for _, text := range o.wraps {
		name, settings, given := strings.Cut(text, "=")
		units, term, hasTerm := strings.Cut(settings, ",")
		ok := !given || settings != ""
		switch name {
		case "denials":
			ok = ok && wrap.Denials == nil
			wrap.Denials = &store.DenialMemory{MaxStale: time.Second}
			if given {
				wrap.Denials.MaxStale, err = store.ParsePeriod(settings)
				ok = ok && err == nil && wrap.Denials.MaxStale >= time.Millisecond && wrap.Denials.MaxStale <= time.Hour
			}
		case "lease":
			ok = ok && wrap.Leases == nil
			wrap.Leases = &store.Leases{Max: 1000, Term: 100 * time.Millisecond}
			if given {
				wrap.Leases.Max, err = store.ParseNumber("UNITS", units, 2, 1_000_000)
				ok = ok && err == nil
			}
			if hasTerm {
				wrap.Leases.Term, err = store.ParsePeriod(term)
				ok = ok && err == nil && wrap.Leases.Term >= time.Millisecond && wrap.Leases.Term <= time.Minute
			}
		default:
			ok = false
		}
		if !ok {
			return wrap, cli.Usagef("--wrap %q must be denials[=1ms to 1h], such as denials=1s, or lease[=2 to 1000000[,1ms to 1m]], "+
				"such as lease=50,100ms, each once", text)
		}
		wrap.Words = append(wrap.Words, text)
	}
	return wrap, nil
}
