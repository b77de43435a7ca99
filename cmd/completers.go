package cmd

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// completionKeys is how many keys are offered at most.
const completionKeys = 100

// completeKeys offers subjects that are in use, from one scan for a short while. Those
// that are special to a shell are not looked for; what is left has no glob in it, and
// so is also the pattern that selects nothing else.
func (g *globalOptions) completeKeys(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || begun != "" && !shell.IsPlain(begun) {
		return nil, directive
	}
	pattern, err := limiter.ParsePattern(limiter.EscapeGlob(begun) + "*")
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.env.TabTime)
	defer cancel()
	quiet := *g
	quiet.quiet, quiet.timeout = true, g.env.TabTime
	store, _, err := quiet.openToRead()
	if err != nil {
		return nil, directive
	}
	defer store.Close()
	var subjects []string
	for entry, err := range store.Scan(ctx, limiter.Query{Subjects: pattern}) {
		if err != nil || len(subjects) == completionKeys {
			break
		}
		subject := entry.Key.Subject
		if shell.IsPlain(subject) && !strings.HasPrefix(subject, "-") && !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	return subjects, directive
}

// completeKeyOrAttributes offers what the arguments of a decision can be: attributes
// of the policy, if one is given, and else keys.
func (g *globalOptions) completeKeyOrAttributes(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if name, err := cmd.Flags().GetString("policy"); err == nil && name != "" {
		return g.completeAttributes(name, args, begun)
	}
	return g.completeKeys(cmd, args, begun)
}

// completeAttributes offers the attributes of a policy that are not given yet.
func (g *globalOptions) completeAttributes(policyName string, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	c, err := g.config()
	if err != nil || strings.Contains(begun, "=") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	p, err := c.Policy(policyName)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := p.Attributes()
	for _, name := range all {
		if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, name+"=") }) {
			names = append(names, name+"=")
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeLimitNames offers the names of the policies' limits.
func (g *globalOptions) completeLimitNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := g.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	of, _ := cmd.Flags().GetString("policy")
	var names []string
	for _, p := range c.Policies {
		for i := range p.Limits {
			if name := p.Limits[i].Name; (of == "" || of == p.Name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
