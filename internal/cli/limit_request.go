package cli

import (
	"context"
	"math"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// LimitRequest is what a command asks of the store; its Decisions come from there.
type LimitRequest struct {
	decision.Answer
	// Config is the configuration of the policy, and Away why it is not known to be the one in force: the store is
	// away.
	Config *InForce
	Away   error
	// Where is the name of the store that was opened to decide.
	Where string
	// WithoutOverrides is why operators' overrides could not be read before the decision; nil if
	// they were.
	WithoutOverrides error
}

// PolicyRequest returns the requests that a policy makes of attributes. cost is nil for a caller that needs the limits
// only. Each request has the token. While the store is away the policy is that of [Globals.InForce], and
// the request says so.
func PolicyRequest(ctx context.Context, g *Globals, name string, op store.Op, args []string, cost *CostFlag,
	token string) (*LimitRequest, error) {
	c, away := g.InForce(ctx)
	if c == nil {
		return nil, away
	}
	p, err := c.Policy(name)
	if err != nil {
		return nil, err
	}
	if args, err = g.NameClientsBy(c.Config, name, args); err != nil {
		return nil, err
	}
	attributes, err := policy.ParseAttributes(args)
	if err != nil {
		return nil, err
	}
	d := &LimitRequest{Answer: decision.Answer{Key: strings.Join(args, " "), Policy: p}, Config: c, Away: away}
	if cost == nil {
		cost = &CostFlag{Units: 1, Fields: p.AllCosts(1)}
	} else if err := cost.Check(p, op); err != nil {
		return nil, err
	}
	if d.Requests, d.Overrides, err = p.Prepare().AppendRequests(
		nil, nil, attributes, cost.Units, cost.Fields...); err != nil {
		return nil, err
	}
	for i := range d.Requests {
		d.Requests[i].Token = token
	}
	d.Requests, err = Normalized(op, d.Requests)
	return d, err
}

// EachLimit returns the limits of a flag that can be repeated. A comma before a COUNT/PERIOD separates limits, and any
// other one an option, which can have a slash: tz=Europe/Berlin.
func EachLimit(given []string) (each []string) {
	for _, text := range given {
		begins := len(each)
		for part := range strings.SplitSeq(text, ",") {
			before, _, isLimit := strings.Cut(part, "/")
			isRest := isLimit && len(before) == 3 && len(each) > begins && isCount(each[len(each)-1]) // of 1,000/1h
			if len(each) > begins && (!isLimit || isRest || strings.Contains(before, "=")) {
				each[len(each)-1] += "," + part
			} else {
				each = append(each, part)
			}
		}
	}
	return each
}

// isCount reports whether a text is digits and commas alone.
func isCount(text string) bool { return strings.Trim(text, "0123456789,") == "" }

// Normalized checks requests before a store is opened. Whether a cost can ever fit its limit is
// left to the store, since an operator's override may have raised the limit.
func Normalized(op store.Op, reqs []store.Request) ([]store.Request, error) {
	if op == store.Take || op == store.Peek {
		op = store.Charge
	}
	if err := store.CheckStored(reqs); err != nil {
		return nil, err
	}
	return store.NormalizeAll(nil, op, reqs)
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

// Words are the costs in the words of a command line.
func (c *CostFlag) Words(p *policy.Policy) []string {
	var words []string
	if c.said || p == nil || !p.HasOwnCosts() {
		words = append(words, "--cost", c.String())
	}
	for _, cost := range c.Fields {
		words = append(words, "--cost", cost.Field+"="+strconv.FormatInt(cost.Units, 10))
	}
	return words
}
