package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// requestFlags are the flags of a command that asks a store about the limits of a subject.
type requestFlags struct {
	policy    string
	limits    []string
	algorithm string
	burst     int64
	cost      costFlag
	token     string
	tokenTTL  string
}

// limitRequest is what a command asks of the store.
type limitRequest struct {
	key  string // as it was given
	reqs []store.Request
	// policy is the one that the requests are of, or nil. overrides are the indices of
	// the overrides that its limits come from, or -1.
	policy    *policy.Policy
	overrides []int
	// where is the name of the store that was opened to decide.
	where string
	// withoutOverrides is why operators' overrides could not be read before the decision; nil if
	// they were.
	withoutOverrides error
}

func (o *requestFlags) addFlags(cmd *cobra.Command, global *globalOptions) {
	flags := cmd.Flags()
	flags.StringVar(&o.policy, "policy", "", "decide the limits of the policy of that `NAME`; the arguments are attributes, such as "+
		"ip=203.0.113.9")
	// Not a StringSlice: a limit may hold a comma.
	flags.StringArrayVarP(&o.limits, "limit", "l", nil,
		"`[ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N]`, such as 10/1m; repeat it to decide several together")
	flags.StringVarP(&o.algorithm, "algorithm", "a", "",
		"`ALGORITHM` of limits that name none: "+strings.Join(store.AlgorithmNames(), ", ")+" (default token-bucket)")
	flags.Int64Var(&o.burst, "burst", 0, "burst of `N` units for bucket limits without one of their own (default their count)")
	o.cost.units = 1
	flags.VarP(&o.cost, "cost", "c", "`N` units that the request takes, or tokens=N of the limits of a policy whose cost is tokens; "+
		"repeat it for several")
	cmd.RegisterFlagCompletionFunc("algorithm", cobra.FixedCompletions(store.AlgorithmNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("policy", completer{global}.policies)
	cmd.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
}

// request returns what the arguments ask for: one KEY under limits, or attributes
// under a policy.
func (o *requestFlags) request(cmd *cobra.Command, global *globalOptions, op store.Op, args []string) (*limitRequest, error) {
	if !cmd.Flags().Changed("policy") {
		if err := oneSubject(cmd, args); err != nil {
			return nil, err
		}
		if len(o.cost.fields) > 0 {
			c := o.cost.fields[0]
			return nil, usagef("--cost %s=%d is for a --policy with that cost; write --cost %d", c.Field, c.Units, c.Units)
		}
		reqs, err := o.requests(cmd, op, args[0])
		return &limitRequest{key: args[0], reqs: reqs}, err
	}
	for _, flag := range []string{"limit", "algorithm", "burst"} {
		if cmd.Flags().Changed(flag) {
			return nil, usagef("--policy and --%s both say what is allowed; give one of them", flag)
		}
	}
	carry, err := o.carriedToken(cmd)
	if err != nil {
		return nil, err
	}
	return policyRequest(global, o.policy, op, args, &o.cost, carry)
}

// addTokenFlag adds --token.
func (o *requestFlags) addTokenFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.token, "token", "", usage)
	cmd.RegisterFlagCompletionFunc("token", cobra.NoFileCompletions)
}

// addTokenTTLFlag adds --token-ttl.
func (o *requestFlags) addTokenTTLFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.tokenTTL, "token-ttl", "", fmt.Sprintf("remember the token for `DURATION`, at most %s (default %s)",
		store.FormatPeriod(store.MaxTokenTTL), store.FormatPeriod(store.DefaultTokenTTL)))
	cmd.RegisterFlagCompletionFunc("token-ttl", cobra.NoFileCompletions)
}

// carriedToken returns what gives a request the token of the command line, if there is one.
func (o *requestFlags) carriedToken(cmd *cobra.Command) (carry func(*store.Request), err error) {
	flags := cmd.Flags()
	if flags.Changed("token") && o.token == "" {
		return nil, usagef("--token is empty; give a text that is different for each call, such as an order's number")
	}
	if !flags.Changed("token-ttl") {
		return func(r *store.Request) { r.Token = o.token }, nil
	}
	ttl, err := store.ParsePeriod(o.tokenTTL)
	switch {
	case o.token == "":
		return nil, usagef("--token-ttl %s says how long to remember a token; add --token TEXT", o.tokenTTL)
	case err != nil:
		return nil, usagef("--token-ttl: %s", err)
	case ttl < store.MinTokenTTL || ttl > store.MaxTokenTTL:
		return nil, usagef("--token-ttl %s is out of range; it must be from %s to %s", o.tokenTTL,
			store.FormatPeriod(store.MinTokenTTL), store.FormatPeriod(store.MaxTokenTTL))
	}
	return func(r *store.Request) { r.Token, r.TokenTTL = o.token, ttl }, nil
}

// policyRequest returns the requests that a policy makes of attributes. cost is nil for those who want to know the limits
// only. carry, if not nil, gives each of them more.
func policyRequest(g *globalOptions, name string, op store.Op, args []string, cost *costFlag,
	carry func(*store.Request)) (*limitRequest, error) {
	c, err := g.config()
	if err != nil {
		return nil, err
	}
	p, err := c.Policy(name)
	if err != nil {
		return nil, err
	}
	attributes, err := policy.ParseAttributes(args)
	if err != nil {
		return nil, err
	}
	d := &limitRequest{key: strings.Join(args, " "), policy: p}
	if cost == nil {
		cost = &costFlag{units: 1, fields: p.AllCosts(1)}
	} else if err := cost.check(p, op); err != nil {
		return nil, err
	}
	if d.reqs, d.overrides, err = p.RequestsWithOverrides(attributes, cost.units, cost.fields...); err != nil {
		return nil, err
	}
	for i := range d.reqs {
		if carry != nil {
			carry(&d.reqs[i])
		}
	}
	d.reqs, err = normalized(op, d.reqs)
	return d, err
}

// words are the request in the words of a command line.
func (o *requestFlags) words(request *limitRequest) string {
	var words []string
	if request.policy != nil {
		words = append([]string{"--policy", request.policy.Name}, strings.Fields(request.key)...)
	} else {
		words = append(words, request.key)
		for i := range request.reqs {
			words = append(words, "--limit", request.reqs[i].Limit.String())
		}
	}
	return shell.Command(append(words, o.cost.words(request.policy)...)...)
}

// limitName is what to call the i-th limit.
func (d *limitRequest) limitName(i int) string {
	if d.policy != nil {
		return d.policy.Limits[i].Name
	}
	return d.reqs[i].Key.Name
}

// amounts are the units of each limit, in words.
func (d *limitRequest) amounts() string {
	parts := make([]string, len(d.reqs))
	for i := range d.reqs {
		parts[i] = fmt.Sprintf("%d (%s)", d.reqs[i].Cost, d.limitName(i))
	}
	return strings.Join(parts, ", ")
}

// requests returns a checked request of the subject for each limit.
func (o *requestFlags) requests(cmd *cobra.Command, op store.Op, subject string) ([]store.Request, error) {
	if len(o.limits) == 0 {
		return nil, usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 10/1m")
	}
	var fallback store.Algorithm
	if o.algorithm != "" {
		var err error
		if fallback, err = store.ParseAlgorithm(o.algorithm); err != nil {
			return nil, usagef("--algorithm: %s", err)
		}
	}
	burst, err := givenBurst(cmd, o.burst)
	if err != nil {
		return nil, err
	}
	carry, err := o.carriedToken(cmd)
	if err != nil {
		return nil, err
	}
	var reqs []store.Request
	for _, text := range o.limits {
		limit, err := store.ParseLimitAs(text, fallback)
		if err != nil {
			return nil, err
		}
		burst.fill(&limit)
		// What the flags filled in may break a bound that the text did not.
		if _, err := limit.Normalize(); err != nil {
			return nil, usagef("limit %q: %s", text, err)
		}
		req := store.Request{Key: store.Key{Subject: subject}, Limit: limit, Cost: o.cost.units}
		carry(&req)
		reqs = append(reqs, req)
	}
	if err := burst.unused(); err != nil {
		return nil, err
	}
	return normalized(op, reqs)
}

// normalized checks requests before a store is opened. Whether a cost can ever fit its limit is
// left to the store, since an operator's override may have raised the limit.
func normalized(op store.Op, reqs []store.Request) ([]store.Request, error) {
	if op == store.Take || op == store.Peek {
		op = store.Charge
	}
	return store.NormalizeAll(nil, op, reqs)
}

// burstFlag is the --burst of a command line.
type burstFlag struct {
	n           int64
	given, used bool
}

// givenBurst returns the --burst n, if it was given.
func givenBurst(cmd *cobra.Command, n int64) (burstFlag, error) {
	given := cmd.Flags().Changed("burst")
	if given && (n < 1 || n > store.MaxCount) {
		return burstFlag{}, usagef("--burst %d is out of range; it must be from 1 to %d", n, store.MaxCount)
	}
	return burstFlag{n: n, given: given}, nil
}

// fill gives a bucket limit the burst, if it has none of its own.
func (b *burstFlag) fill(limit *store.Limit) {
	if b.given && limit.Burst == 0 && limit.Algorithm.HasBurst() {
		limit.Burst, b.used = b.n, true
	}
}

// unused is the mistake of a burst that no limit took.
func (b *burstFlag) unused() error {
	if b.given && !b.used {
		return usagef("--burst %d applies to none of the limits; it is for %s limits without a burst of their own", b.n,
			strings.Join(bucketNames(), " and "))
	}
	return nil
}

// bucketNames are the algorithms whose limits can have a burst of their own.
func bucketNames() []string {
	var names []string
	for _, a := range store.Algorithms() {
		if a.HasBurst() {
			names = append(names, a.String())
		}
	}
	return names
}
