package lab

import (
	"math/rand/v2"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/experiment"
	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sharedRunFlags are the flags of a run that several machines share.
type sharedRunFlags struct {
	run      string
	machines int
}

func (o *sharedRunFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.run, "run", "",
		"use the keys of the run `NAME` together with other machines that name it; see --machines and --start-at")
	cmd.Flags().IntVar(&o.machines, "machines", 0, "the run has `N` machines, this one included")
}

// mostMachines is how many machines share a run.
const mostMachines = 1000

// maxRunName is how long the name of a run can be, in bytes, so that it fits a prefix.
const maxRunName = 64

// parse returns the shared run, or nil without --run.
func (o *sharedRunFlags) parse(cmd *cobra.Command, plan *loadtestPlan) (*report.Shared, error) {
	if !cmd.Flags().Changed("run") {
		if cmd.Flags().Changed("machines") {
			return nil, cli.Usagef("--machines needs the --run that the machines share")
		}
		return nil, nil
	}
	switch err := store.ValidatePrefix(o.run); {
	case o.run == "":
		return nil, cli.Usagef("--run is empty; give a name that all machines use")
	case len(o.run) > maxRunName:
		return nil, cli.Usagef("--run %.20q… is %d bytes long; at most %d fit", o.run, len(o.run), maxRunName)
	case err != nil:
		return nil, cli.Usagef("--run %q cannot be part of a key; use letters, digits, - and _", o.run)
	case strings.ContainsAny(o.run, ":{}*?[]"):
		return nil, cli.Usagef("--run %q has a character that means something else in keys; use letters, digits, - and _", o.run)
	case o.machines < 1 || o.machines > mostMachines:
		return nil, cli.Usagef("--run needs --machines, how many there are in all, from 1 to %d", mostMachines)
	case plan.start.IsZero():
		return nil, cli.Usagef("--run needs --start-at, so that all machines begin together, with keys that nobody has used")
	case len(plan.Candidates) > 1:
		return nil, cli.Usagef("--run is for one algorithm at a time; run the others under other names")
	case !plan.Wrap.IsZero():
		return nil, cli.Usagef("--run goes without --wrap and --replicas; each machine is a replica of its own")
	}
	if !cmd.Flags().Changed("seed") { // else all machines would send the same sequence
		plan.Load.Seed = rand.Uint64()
	}
	return &report.Shared{Name: o.run, Machine: experiment.MachineID(), Machines: o.machines, StartAt: plan.start.UTC()}, nil
}

// openStore opens the store of a run, under the run's prefix if others share it.
func (o *loadtestOptions) openStore(url string, options connect.Options) (*experiment.Store, error) {
	if o.run == "" {
		return openExperiment(o.Globals, url, options)
	}
	if strings.HasPrefix(url, "memory:") {
		return nil, cli.Usagef("--run needs a store that other machines reach, and %s is in this process", url)
	}
	backend, err := experiment.OpenNamedStore(url, options, o.run)
	return openedExperiment(o.Globals, backend, err)
}
