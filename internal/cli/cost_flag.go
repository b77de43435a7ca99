package cli

import (
	"math"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
