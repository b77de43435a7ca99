package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// RequestFlags are the flags of a command that asks a store about the limits of a subject.
type RequestFlags struct {
	Policy    string
	limits    []string
	algorithm string
	burst     int64
	Cost      CostFlag
	leave     int64
	token     string
	tokenTTL  string
}

// LimitRequest is what a command asks of the store.
type LimitRequest struct {
	Key  string // as it was given
	Reqs []store.Request
	// Policy is the one that the requests are of, or nil. overrides are the indices of
	// the overrides that its limits come from, or -1.
	Policy    *policy.Policy
	Overrides []int
	// Where is the name of the store that was opened to decide.
	Where string
	// WithoutOverrides is why operators' overrides could not be read before the decision; nil if
	// they were.
	WithoutOverrides error
}

// AddFlags adds the flags that name a policy or limits, and a cost.
func (o *RequestFlags) AddFlags(cmd *cobra.Command, global *Globals) {
	flags := cmd.Flags()
	flags.StringVar(&o.Policy, "policy", "", "decide the limits of the policy `NAME`; the arguments are attributes, such as "+
		"ip=203.0.113.9")
	// Not a StringSlice: a limit may hold a comma.
	flags.StringArrayVarP(&o.limits, "limit", "l", nil,
		"`[ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N]`, such as 10/1m; repeat it, or put commas between, to decide several together")
	flags.StringVarP(&o.algorithm, "algorithm", "a", "",
		"`ALGORITHM` of limits that name none: "+strings.Join(store.AlgorithmNames(), ", ")+" (default token-bucket)")
	NumberFlag(flags, &o.burst, "burst", "", 0, "burst of `N` units for bucket limits without one of their own (default their count)")
	o.Cost.Units = 1
	flags.VarP(&o.Cost, "cost", "c", "`N` units that the request takes, or tokens=N of the limits of a policy whose cost is tokens; "+
		"repeat it for several")
	cmd.RegisterFlagCompletionFunc("algorithm", cobra.FixedCompletions(store.AlgorithmNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("policy", Offers(global).Policies)
	cmd.RegisterFlagCompletionFunc("limit", cobra.NoFileCompletions)
}

// Request returns what the arguments ask for: one KEY under limits, or attributes
// under a policy.
func (o *RequestFlags) Request(cmd *cobra.Command, global *Globals, op store.Op, args []string) (*LimitRequest, error) {
	if !cmd.Flags().Changed("policy") {
		if err := oneSubject(cmd, args); err != nil {
			return nil, err
		}
		if len(o.Cost.Fields) > 0 {
			c := o.Cost.Fields[0]
			return nil, Usagef("--cost %s=%d is for a --policy with that cost; write --cost %d", c.Field, c.Units, c.Units)
		}
		reqs, err := o.requests(cmd, op, args[0])
		return &LimitRequest{Key: args[0], Reqs: reqs}, err
	}
	if cmd.Flags().Changed("leave") {
		return nil, Usagef("--leave %d is for --limit; with --policy the classes of its limits say what is left to others", o.leave)
	}
	for _, flag := range []string{"limit", "algorithm", "burst"} {
		if cmd.Flags().Changed(flag) {
			return nil, Usagef("--policy and --%s both say what is allowed; give one of them", flag)
		}
	}
	carry, err := o.carriedToken(cmd)
	if err != nil {
		return nil, err
	}
	return PolicyRequest(global, o.Policy, op, args, &o.Cost, carry)
}

// AddLeaveFlag adds --leave.
func (o *RequestFlags) AddLeaveFlag(cmd *cobra.Command) {
	NumberFlag(cmd.Flags(), &o.leave, "leave", "", 0,
		"leave `N` units of each limit to others: allow the request only if they stay free after it")
	cmd.RegisterFlagCompletionFunc("leave", cobra.NoFileCompletions)
}

// AddTokenFlag adds --token.
func (o *RequestFlags) AddTokenFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.token, "token", "", usage)
	cmd.RegisterFlagCompletionFunc("token", cobra.NoFileCompletions)
}

// AddTokenTTLFlag adds --token-ttl.
func (o *RequestFlags) AddTokenTTLFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.tokenTTL, "token-ttl", "", fmt.Sprintf("remember the token for `DURATION`, at most %s (default %s)",
		store.FormatPeriod(store.MaxTokenTTL), store.FormatPeriod(store.DefaultTokenTTL)))
	cmd.RegisterFlagCompletionFunc("token-ttl", cobra.NoFileCompletions)
}

// carriedToken returns what gives a request the token of the command line, if there is one.
func (o *RequestFlags) carriedToken(cmd *cobra.Command) (carry func(*store.Request), err error) {
	flags := cmd.Flags()
	if flags.Changed("token") && o.token == "" {
		return nil, Usagef("--token is empty; give a text that is different for each call, such as an order's number")
	}
	if !flags.Changed("token-ttl") {
		return func(r *store.Request) { r.Token = o.token }, nil
	}
	ttl, err := store.ParsePeriod(o.tokenTTL)
	switch {
	case o.token == "":
		return nil, Usagef("--token-ttl %s says how long to remember a token; add --token TEXT", o.tokenTTL)
	case err != nil:
		return nil, Usagef("--token-ttl: %s", err)
	case ttl < store.MinTokenTTL || ttl > store.MaxTokenTTL:
		return nil, Usagef("--token-ttl %s is out of range; it must be from %s to %s", o.tokenTTL,
			store.FormatPeriod(store.MinTokenTTL), store.FormatPeriod(store.MaxTokenTTL))
	}
	return func(r *store.Request) { r.Token, r.TokenTTL = o.token, ttl }, nil
}

// PolicyRequest returns the requests that a policy makes of attributes. cost is nil for a caller that needs the limits only.
// carry, if not nil, adds to each request.
func PolicyRequest(g *Globals, name string, op store.Op, args []string, cost *CostFlag,
	carry func(*store.Request)) (*LimitRequest, error) {
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	p, err := c.Policy(name)
	if err != nil {
		return nil, err
	}
	if args, err = g.NameClients(false, name, args); err != nil {
		return nil, err
	}
	attributes, err := policy.ParseAttributes(args)
	if err != nil {
		return nil, err
	}
	d := &LimitRequest{Key: strings.Join(args, " "), Policy: p}
	if cost == nil {
		cost = &CostFlag{Units: 1, Fields: p.AllCosts(1)}
	} else if err := cost.Check(p, op); err != nil {
		return nil, err
	}
	if d.Reqs, d.Overrides, err = p.Prepare().AppendRequests(nil, nil, attributes, cost.Units, cost.Fields...); err != nil {
		return nil, err
	}
	for i := range d.Reqs {
		if carry != nil {
			carry(&d.Reqs[i])
		}
	}
	d.Reqs, err = normalized(op, d.Reqs)
	return d, err
}

// Words are the request in the words of a command line.
func (o *RequestFlags) Words(request *LimitRequest) string {
	var words []string
	if request.Policy != nil {
		words = append([]string{"--policy", request.Policy.Name}, strings.Fields(request.Key)...)
	} else {
		words = append(words, request.Key)
		for i := range request.Reqs {
			words = append(words, "--limit", request.Reqs[i].Limit.String())
		}
		if o.leave != 0 {
			words = append(words, "--leave", Number(o.leave))
		}
	}
	return shell.Command(append(words, o.Cost.words(request.Policy)...)...)
}

// LimitName is the name of the i-th limit.
func (d *LimitRequest) LimitName(i int) string {
	if d.Policy != nil {
		return d.Policy.Limits[i].Name
	}
	return d.Reqs[i].Key.Name
}

// Amounts are the units of each limit, in words.
func (d *LimitRequest) Amounts() string {
	parts := make([]string, len(d.Reqs))
	for i := range d.Reqs {
		parts[i] = fmt.Sprintf("%d (%s)", d.Reqs[i].Cost, d.LimitName(i))
	}
	return strings.Join(parts, ", ")
}

// CheckLimits returns an error if no --limit is given.
func (o *RequestFlags) CheckLimits() error {
	if len(o.limits) == 0 {
		return Usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 10/1m")
	}
	return nil
}

// requests returns a checked request of the subject for each limit.
func (o *RequestFlags) requests(cmd *cobra.Command, op store.Op, subject string) ([]store.Request, error) {
	if err := o.CheckLimits(); err != nil {
		return nil, err
	}
	var fallback store.Algorithm
	if o.algorithm != "" {
		var err error
		if fallback, err = store.ParseAlgorithm(o.algorithm); err != nil {
			return nil, Usagef("--algorithm: %s", err)
		}
	}
	burst, err := GivenBurst(cmd, o.burst)
	if err != nil {
		return nil, err
	}
	if o.leave < 0 || o.leave > store.MaxCount {
		return nil, Usagef("--leave %d is out of range; it must be from 0 to %d", o.leave, store.MaxCount)
	}
	carry, err := o.carriedToken(cmd)
	if err != nil {
		return nil, err
	}
	var reqs []store.Request
	for _, text := range EachLimit(o.limits) {
		limit, err := store.ParseLimitAs(text, fallback)
		if err != nil {
			return nil, err
		}
		burst.Fill(&limit)
		req := store.Request{Key: store.Key{Subject: subject}, Limit: limit, Cost: o.Cost.Units, Leave: o.leave}
		carry(&req)
		reqs = append(reqs, req)
	}
	if err := burst.Unused(); err != nil {
		return nil, err
	}
	return normalized(op, reqs)
}

// EachLimit returns the limits of a flag that can be repeated. A comma before a COUNT/PERIOD separates limits, and any other
// one an option, which can have a slash: tz=Europe/Berlin.
func EachLimit(given []string) (each []string) {
	for _, text := range given {
		begins := len(each)
		for part := range strings.SplitSeq(text, ",") {
			if before, _, isLimit := strings.Cut(part, "/"); len(each) > begins && (!isLimit || strings.Contains(before, "=")) {
				each[len(each)-1] += "," + part
			} else {
				each = append(each, part)
			}
		}
	}
	return each
}

// normalized checks requests before a store is opened. Whether a cost can ever fit its limit is
// left to the store, since an operator's override may have raised the limit.
func normalized(op store.Op, reqs []store.Request) ([]store.Request, error) {
	if op == store.Take || op == store.Peek {
		op = store.Charge
	}
	if err := store.CheckStored(reqs); err != nil {
		return nil, err
	}
	return store.NormalizeAll(nil, op, reqs)
}

// BurstFlag is the --burst of a command line.
type BurstFlag struct {
	n           int64
	given, used bool
}

// GivenBurst returns the --burst n, if it was given.
func GivenBurst(cmd *cobra.Command, n int64) (BurstFlag, error) {
	given := cmd.Flags().Changed("burst")
	if given && (n < 1 || n > store.MaxCount) {
		return BurstFlag{}, Usagef("--burst %d is out of range; it must be from 1 to %d", n, store.MaxCount)
	}
	return BurstFlag{n: n, given: given}, nil
}

// Fill gives a bucket limit the burst, if it has none of its own.
func (b *BurstFlag) Fill(limit *store.Limit) {
	if b.given && limit.Burst == 0 && limit.Algorithm.HasBurst() {
		limit.Burst, b.used = b.n, true
	}
}

// Unused is the mistake of a burst that no limit took.
func (b *BurstFlag) Unused() error {
	if b.given && !b.used {
		return Usagef("--burst %d applies to none of the limits; it is for %s limits without a burst of their own", b.n,
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

// CostFlag is a --cost that can be repeated: 5, and tokens=3000 for the limits of a policy whose cost is that field.
type CostFlag struct {
	Units  int64
	said   bool // units is not the default
	Fields []policy.FieldCost
}

// Set implements pflag.Value.
func (c *CostFlag) Set(text string) error {
	if name, number, isField := strings.Cut(text, "="); isField {
		cost, err := policy.ParseFieldCost(name, number)
		c.Fields = append(c.Fields, cost)
		return err
	}
	units, err := store.ParseNumber("--cost", text, math.MinInt64, math.MaxInt64)
	c.Units, c.said = units, true
	return err
}

// String implements pflag.Value.
func (c *CostFlag) String() string { return strconv.FormatInt(c.Units, 10) }

// Type implements pflag.Value.
func (*CostFlag) Type() string { return "cost" }

// Check reports a cost that op does not take under a policy, and a policy whose cost fields have no cost.
func (c *CostFlag) Check(p *policy.Policy, op store.Op) error {
	if err := p.CheckCost(op, c.Units, c.said); err != nil {
		return err
	}
	if fields := p.CostFields(); len(c.Fields) == 0 && len(fields) > 0 {
		return MissingCosts(p, fields)
	}
	return nil
}

// MissingCosts says which costs a policy needs.
func MissingCosts(p *policy.Policy, fields []string) error {
	var words []string
	for _, field := range fields {
		words = append(words, "--cost", field+"=UNITS")
	}
	return Usagef("policy %q needs the cost %s; add %s", p.Name, strings.Join(fields, " and "), shell.Command(words...))
}

// Text is what was said, such as "1, tokens=3000".
func (c *CostFlag) Text() string {
	var parts []string
	if c.said {
		parts = append(parts, c.String())
	}
	for _, cost := range c.Fields {
		parts = append(parts, cost.Field+"="+strconv.FormatInt(cost.Units, 10))
	}
	return strings.Join(parts, ", ")
}

// words are the costs in the words of a command line.
func (c *CostFlag) words(p *policy.Policy) []string {
	var words []string
	if c.said || p == nil || !p.HasOwnCosts() {
		words = append(words, "--cost", c.String())
	}
	for _, cost := range c.Fields {
		words = append(words, "--cost", cost.Field+"="+strconv.FormatInt(cost.Units, 10))
	}
	return words
}
