package decide

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// options are what a command of this package works with.
type options struct {
	*cli.Globals
	requestFlags
	cli.ConsentOptions
	onError string
	request *cli.LimitRequest
}

// requestFlags are the flags of a command that asks a store about the limits of a subject.
type requestFlags struct {
	Policy string
	limits []string
	Cost   cli.CostFlag
	token  string
}

// AddFlags adds the flags that name a policy or limits, and a cost.
func (o *requestFlags) AddFlags(cmd *cobra.Command, global *cli.Globals) {
	flags := cmd.Flags()
	flags.StringVar(&o.Policy, "policy", "",
		"decide the limits of the policy `NAME`; the arguments are attributes, such as "+
			"ip=203.0.113.9")
	// Not a StringSlice: a limit may hold a comma.
	flags.StringArrayVarP(&o.limits, "limit", "l", nil,
		"`[ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N]`, such as 10/1m; repeat it, or put commas between, to decide "+
			"several together")
	o.Cost.Units = 1
	flags.VarP(&o.Cost, "cost", "c",
		"`N` units that the request takes, or tokens=N of the limits of a policy whose cost is tokens; "+
			"repeat it for several")
	cmd.RegisterFlagCompletionFunc("policy", cli.Offers(global).Policies)
}

// Request returns what the arguments ask for: one KEY under limits, or attributes
// under a policy.
func (o *requestFlags) Request(cmd *cobra.Command, global *cli.Globals, op store.Op, args []string) (
	*cli.LimitRequest, error) {
	if err := cli.NotEmpty(cmd, "token", "on-error"); err != nil {
		return nil, err
	}
	if !cmd.Flags().Changed("policy") {
		if err := oneSubject(cmd, args); err != nil {
			return nil, err
		}
		if len(o.Cost.Fields) > 0 {
			c := o.Cost.Fields[0]
			return nil, cli.Usagef("--cost %s=%d is for a --policy with that cost; write --cost %d", c.Field, c.Units,
				c.Units)
		}
		if stored := subjecttext.Stored(args[0]); stored != args[0] {
			global.Warn("tables show " + stored + " so, which is another key; a --policy takes the address")
		}
		reqs, err := o.requests(op, args[0])
		return &cli.LimitRequest{Answer: decision.Answer{Key: args[0], Requests: reqs}}, err
	}
	if len(o.limits) > 0 {
		return nil, cli.Usagef("--policy and --limit both say what is allowed; give one of them")
	}
	return cli.PolicyRequest(cmd.Context(), global, o.Policy, op, args, &o.Cost, o.token)
}

// addTokenFlag adds --token.
func (o *requestFlags) addTokenFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.token, "token", "", usage)
}

// Words are the request in the words of a command line.
func (o *requestFlags) Words(request *cli.LimitRequest) string {
	var words []string
	if request.Policy != nil {
		words = append([]string{"--policy", request.Policy.Name}, strings.Fields(request.Key)...)
	} else {
		words = append(words, request.Key)
		for i := range request.Requests {
			words = append(words, "--limit", request.Requests[i].Limit.String())
		}
	}
	return shell.Command(append(words, o.Cost.Words(request.Policy)...)...)
}

// requests returns a checked request of the subject for each limit.
func (o *requestFlags) requests(op store.Op, subject string) ([]store.Request, error) {
	if len(o.limits) == 0 {
		return nil, cli.Usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 10/1m")
	}
	var reqs []store.Request
	for _, text := range cli.EachLimit(o.limits) {
		limit, err := store.ParseLimit(text)
		if err != nil {
			return nil, err
		}
		reqs = append(reqs, store.Request{Key: store.Key{Subject: subject}, Limit: limit, Cost: o.Cost.Units,
			Token: o.token})
	}
	return cli.Normalized(op, reqs)
}

// oneSubject is the argument check of commands that take one KEY.
func oneSubject(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return cli.Usagef("no KEY given; say who is limited, as in `%s user:42`", cmd.CommandPath())
	case len(args) == 2 && cmd.Flags().Changed("wait"):
		return cli.Usagef("--wait takes its value after an =, as in --wait=30s")
	case len(args) > 1:
		return cli.Usagef("%s given, but %s takes one KEY; quote it if it contains spaces", cli.Several(args),
			cmd.Name())
	}
	return nil
}
