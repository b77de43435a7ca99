package decide

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// requestFlags are the flags of a command that asks a store about the limits of a subject.
type requestFlags struct {
	Policy    string
	limits    []string
	algorithm string
	Cost      cli.CostFlag
	leave     int64
	token     string
	tokenTTL  string
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
	flags.StringVarP(&o.algorithm, "algorithm", "a", "",
		"`ALGORITHM` of limits that name none: "+strings.Join(store.AlgorithmNames(), ", ")+" (default token-bucket)")
	o.Cost.Units = 1
	flags.VarP(&o.Cost, "cost", "c",
		"`N` units that the request takes, or tokens=N of the limits of a policy whose cost is tokens; "+
			"repeat it for several")
	cmd.RegisterFlagCompletionFunc("algorithm",
		cobra.FixedCompletions(store.AlgorithmNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("policy", cli.Offers(global).Policies)
}

// Request returns what the arguments ask for: one KEY under limits, or attributes
// under a policy.
func (o *requestFlags) Request(cmd *cobra.Command, global *cli.Globals, op store.Op, args []string) (
	*cli.LimitRequest, error) {
	if !cmd.Flags().Changed("policy") {
		if err := oneSubject(cmd, args); err != nil {
			return nil, err
		}
		if len(o.Cost.Fields) > 0 {
			c := o.Cost.Fields[0]
			return nil, cli.Usagef("--cost %s=%d is for a --policy with that cost; write --cost %d", c.Field, c.Units,
				c.Units)
		}
		reqs, err := o.requests(cmd, op, args[0])
		return &cli.LimitRequest{Key: args[0], Reqs: reqs}, err
	}
	if cmd.Flags().Changed("leave") {
		return nil, cli.Usagef("--leave %d is for --limit; with --policy the classes of its limits say what is left "+
			"to others", o.leave)
	}
	for _, flag := range []string{"limit", "algorithm"} {
		if cmd.Flags().Changed(flag) {
			return nil, cli.Usagef("--policy and --%s both say what is allowed; give one of them", flag)
		}
	}
	carry, err := o.carriedToken(cmd)
	if err != nil {
		return nil, err
	}
	return cli.PolicyRequest(cmd.Context(), global, o.Policy, op, args, &o.Cost, carry)
}

// addLeaveFlag adds --leave.
func (o *requestFlags) addLeaveFlag(cmd *cobra.Command) {
	cli.NumberFlag(cmd.Flags(), &o.leave, "leave", "", 0,
		"leave `N` units of each limit to others: allow the request only if they stay free after it")
}

// addTokenFlag adds --token.
func (o *requestFlags) addTokenFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.token, "token", "", usage)
}

// addTokenTTLFlag adds --token-ttl.
func (o *requestFlags) addTokenTTLFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.tokenTTL, "token-ttl", "",
		fmt.Sprintf("remember the token for `DURATION`, at most %s (default %s)",
			store.FormatPeriod(store.MaxTokenTTL), store.FormatPeriod(store.DefaultTokenTTL)))
}

// carriedToken returns what gives a request the token of the command line, if there is one.
func (o *requestFlags) carriedToken(cmd *cobra.Command) (carry func(*store.Request), err error) {
	flags := cmd.Flags()
	if flags.Changed("token") && o.token == "" {
		return nil, cli.Usagef("--token is empty; give a text that is different for each call, such as an order's " +
			"number")
	}
	if !flags.Changed("token-ttl") {
		return func(r *store.Request) { r.Token = o.token }, nil
	}
	ttl, err := store.ParsePeriod(o.tokenTTL)
	switch {
	case o.token == "":
		return nil, cli.Usagef("--token-ttl %s says how long to remember a token; add --token TEXT", o.tokenTTL)
	case err != nil:
		return nil, cli.Usagef("--token-ttl: %s", err)
	case ttl < store.MinTokenTTL || ttl > store.MaxTokenTTL:
		return nil, cli.Usagef("--token-ttl %s is out of range; it must be from %s to %s", o.tokenTTL,
			store.FormatPeriod(store.MinTokenTTL), store.FormatPeriod(store.MaxTokenTTL))
	}
	return func(r *store.Request) { r.Token, r.TokenTTL = o.token, ttl }, nil
}

// Words are the request in the words of a command line.
func (o *requestFlags) Words(request *cli.LimitRequest) string {
	var words []string
	if request.Policy != nil {
		words = append([]string{"--policy", request.Policy.Name}, strings.Fields(request.Key)...)
	} else {
		words = append(words, request.Key)
		for i := range request.Reqs {
			words = append(words, "--limit", request.Reqs[i].Limit.String())
		}
		if o.leave != 0 {
			words = append(words, "--leave", cli.Number(o.leave))
		}
	}
	return shell.Command(append(words, o.Cost.Words(request.Policy)...)...)
}

// requests returns a checked request of the subject for each limit.
func (o *requestFlags) requests(cmd *cobra.Command, op store.Op, subject string) ([]store.Request, error) {
	if len(o.limits) == 0 {
		return nil, cli.Usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 10/1m")
	}
	var fallback store.Algorithm
	if o.algorithm != "" {
		var err error
		if fallback, err = store.ParseAlgorithm(o.algorithm); err != nil {
			return nil, cli.Usagef("--algorithm: %s", err)
		}
	}
	if o.leave < 0 || o.leave > store.MaxCount {
		return nil, cli.Usagef("--leave %d is out of range; it must be from 0 to %d", o.leave, store.MaxCount)
	}
	carry, err := o.carriedToken(cmd)
	if err != nil {
		return nil, err
	}
	var reqs []store.Request
	for _, text := range cli.EachLimit(o.limits) {
		limit, err := store.ParseLimitAs(text, fallback)
		if err != nil {
			return nil, err
		}
		req := store.Request{Key: store.Key{Subject: subject}, Limit: limit, Cost: o.Cost.Units, Leave: o.leave}
		carry(&req)
		reqs = append(reqs, req)
	}
	return cli.Normalized(op, reqs)
}

// oneSubject is the argument check of commands that take one KEY.
func oneSubject(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return cli.Usagef("no KEY given; say who is limited, as in `%s user:42`", cmd.CommandPath())
	case len(args) == 2 && strings.Contains(args[1], "/") && isLimit(args[1]):
		return cli.Usagef("%q is no KEY but a limit; write %s", args[1], shell.Command("--limit", args[1]))
	case len(args) == 2 && cmd.Flags().Changed("wait") && isPeriod(args[1]):
		return cli.Usagef("--wait takes its value after an =, as in --wait=30s")
	case len(args) > 1:
		return cli.Usagef("%s given, but %s takes one KEY; quote it if it contains spaces", cli.Several(args),
			cmd.Name())
	}
	return nil
}

func isLimit(text string) bool {
	_, err := store.ParseLimit(text)
	return err == nil
}

func isPeriod(text string) bool {
	_, err := store.ParsePeriod(text)
	return err == nil
}
