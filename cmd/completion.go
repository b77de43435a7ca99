package cmd

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

const (
	// completionTime bounds what completing a key costs: whoever presses Tab waits.
	completionTime = 300 * time.Millisecond
	// completionKeys is how many keys are offered at most.
	completionKeys = 100
)

// completeKeys offers subjects that are in use, from one scan for a short while.
// Where a pattern is wanted they are written as one that selects nothing else.
func (g *globalOptions) completeKeys(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, directive
	}
	written := func(subject string) string { return subject }
	if exact, err := cmd.Flags().GetBool("exact"); err == nil && !exact {
		written = literalPattern
	}
	pattern, err := limiter.ParsePattern(limiter.EscapeGlob(unwritten(begun, written)) + "*")
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	quiet := *g
	quiet.quiet, quiet.timeout = true, completionTime
	store, err := quiet.openToRead()
	if err != nil {
		return nil, directive
	}
	defer store.Close()
	var subjects []string
	for entry, err := range store.Scan(ctx, limiter.Query{Subjects: pattern}) {
		if err != nil || len(subjects) == completionKeys {
			break
		}
		// A tab or line break cannot be in a subject, so each is one offer. One that
		// would be taken for a flag, or that cannot be seen as it is, is none.
		offer := written(entry.Key.Subject)
		if !strings.HasPrefix(offer, begun) || strings.HasPrefix(offer, "-") || output.Printable(offer) != offer {
			continue
		}
		if !slices.Contains(subjects, offer) {
			subjects = append(subjects, offer)
		}
	}
	return subjects, directive
}

// literalPattern writes a subject as the pattern that selects exactly it.
func literalPattern(subject string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(subject)
}

// unwritten returns what the beginning of a subject stands for that was begun to be
// written so. Offers begin with what is there, so a glob's begin with what is before
// its first special character.
func unwritten(begun string, written func(string) string) string {
	var subject strings.Builder
	for rest := begun; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if written(string(r)) != string(r) { // it is special
			if rest = rest[size:]; r != '\\' || rest == "" {
				break
			}
			r, size = utf8.DecodeRuneInString(rest)
		}
		subject.WriteRune(r)
		rest = rest[size:]
	}
	return subject.String()
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
