package cmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// completer offers a shell the words that can come next.
type completer struct{ *globalOptions }

// completionKeys is how many keys are offered at most.
const completionKeys = 100

// keys offers subjects that are in use, from one scan for a short while. Those
// that are special to a shell are not looked for; what is left has no glob in it, and
// so is also the pattern that selects nothing else.
func (c completer) keys(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || begun != "" && !shell.IsPlain(begun) {
		return nil, directive
	}
	pattern, err := store.ParseStoreKeyPattern(store.EscapeGlob(begun) + "*")
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.env.TabTime)
	defer cancel()
	quiet := *c.globalOptions
	quiet.quiet, quiet.timeout = true, c.env.TabTime
	if cmd.Flags().Lookup("layout") != nil { // the command can be about keys of other limiters
		var l layoutOptions
		l.layoutName, _ = cmd.Flags().GetString("layout")
		if err := l.use(&quiet); err != nil {
			return nil, directive
		}
	}
	backend, _, err := quiet.openToRead()
	if err != nil {
		return nil, directive
	}
	defer backend.Close()
	var subjects []string
	for entry, err := range backend.Scan(ctx, admin.Query{Subjects: pattern}) {
		if unsure := (*foreign.UnsureError)(nil); errors.As(err, &unsure) {
			continue
		}
		if err != nil || len(subjects) == completionKeys {
			break
		}
		subject := entry.Key.Subject
		if quiet.layouts != nil && !strings.HasPrefix(subject, begun) { // what was begun is a store key
			subject = entry.StoreKey
		}
		if shell.IsPlain(subject) && !strings.HasPrefix(subject, "-") && !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	return subjects, directive
}

// keyOrAttributes offers what the arguments of a decision can be: attributes
// of the policy, if one is given, and else keys.
func (c completer) keyOrAttributes(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if name, err := cmd.Flags().GetString("policy"); err == nil && name != "" {
		return c.attributes(name, args, begun)
	}
	return c.keys(cmd, args, begun)
}

// attributes offers the attributes of a policy that are not given yet.
func (c completer) attributes(policyName string, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	read, err := c.config()
	if err != nil || strings.Contains(begun, "=") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	p, err := read.Policy(policyName)
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

// allAttributes offers the attributes of all policies.
func (c completer) allAttributes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if read, err := c.config(); err == nil {
		for _, p := range read.Policies {
			all, _ := p.Attributes()
			names = append(names, all...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// limitNames offers the names of the policies' limits.
func (c completer) limitNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	read, err := c.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	of, _ := cmd.Flags().GetString("policy")
	var names []string
	for _, p := range read.Policies {
		for i := range p.Limits {
			if name := p.Limits[i].Name; (of == "" || of == p.Name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// contexts offers the names of contexts to a shell.
func (c completer) contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if read, err := c.config(); err == nil {
		for _, x := range read.Contexts {
			names = append(names, x.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// policies offers the names of policies to a shell.
func (c completer) policies(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if read, err := c.config(); err == nil {
		for _, p := range read.Policies {
			names = append(names, p.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// backups offers the names of backups to a shell, the newest first.
func (c completer) backups(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	folder, err := c.backupFolder()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	files, _ := folder.List()
	var names []string
	for _, file := range files {
		if shell.IsPlain(file.Name) {
			names = append(names, file.Name)
		}
	}
	return names, cobra.ShellCompDirectiveKeepOrder
}
