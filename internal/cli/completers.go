package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Completer offers a shell the words that can come next.
type Completer struct{ *Globals }

// Offers returns what offers words to a shell.
func Offers(global *Globals) Completer { return Completer{global} }

// completionKeys is how many keys are offered at most.
const completionKeys = 100

// Keys offers subjects that are in use, from one short scan. It leaves out those with
// characters that are special to a shell. The others hold no glob, so each is also the
// pattern that selects only itself.
func (c Completer) Keys(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || begun != "" && !shell.IsPlain(begun) {
		return nil, directive
	}
	pattern, err := store.ParseStoreKeyPattern(store.EscapeGlob(begun) + "*")
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Env.TabTime)
	defer cancel()
	quiet := *c.Globals
	quiet.Quiet, quiet.Timeout = true, c.Env.TabTime
	if cmd.Flags().Lookup("layout") != nil { // the command can be about keys of other limiters
		var l LayoutOptions
		l.LayoutName, _ = cmd.Flags().GetString("layout")
		if err := l.Use(&quiet); err != nil {
			return nil, directive
		}
	}
	backend, _, err := quiet.OpenToRead()
	if err != nil {
		return nil, directive
	}
	defer backend.Close()
	var subjects []string
	for entry, err := range backend.Scan(ctx, admin.Query{Subjects: pattern}) {
		if unsure := (*layouts.UnsureError)(nil); errors.As(err, &unsure) {
			continue
		}
		if err != nil || len(subjects) == completionKeys {
			break
		}
		subject := entry.Key.Subject
		if quiet.Layouts != nil && !strings.HasPrefix(subject, begun) { // what was begun is a store key
			subject = entry.StoreKey
		}
		if shell.IsPlain(subject) && !strings.HasPrefix(subject, "-") && !slices.Contains(subjects, subject) {
			subjects = append(subjects, subject)
		}
	}
	return subjects, directive
}

// KeyOrAttributes offers what the arguments of a decision can be: attributes
// of the policy, if one is given, and else keys.
func (c Completer) KeyOrAttributes(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if name, err := cmd.Flags().GetString("policy"); err == nil && name != "" {
		return c.Attributes(name, args, begun)
	}
	return c.Keys(cmd, args, begun)
}

// Attributes offers the attributes of a policy that are not given yet.
func (c Completer) Attributes(policyName string, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	read, err := c.policies()
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

// policies returns the configuration in force, within the time of a word.
func (c Completer) policies() (*config.Config, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Env.TabTime)
	defer cancel()
	quiet := *c.Globals
	quiet.Quiet, quiet.Timeout = true, c.Env.TabTime
	defer quiet.CloseEarly()
	inForce, err := quiet.InForce(ctx)
	if inForce == nil {
		return nil, err
	}
	return inForce.Config, nil
}

// offered returns the words that a configuration offers; none if it has mistakes.
func offered(read func() (*config.Config, error), words func(*config.Config) []string) ([]string, cobra.ShellCompDirective) {
	c, err := read()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := words(c)
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// AllAttributes offers the attributes of all policies.
func (c Completer) AllAttributes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.policies, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			all, _ := p.Attributes()
			names = append(names, all...)
		}
		return names
	})
}

// LimitNames offers the names of the policies' limits.
func (c Completer) LimitNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	of, _ := cmd.Flags().GetString("policy")
	return offered(c.policies, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			for i := range p.Limits {
				if of == "" || of == p.Name {
					names = append(names, p.Limits[i].Name)
				}
			}
		}
		return names
	})
}

// Contexts offers the names of contexts to a shell.
func (c Completer) Contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.Config, func(read *config.Config) (names []string) {
		for _, x := range read.Contexts {
			names = append(names, x.Name)
		}
		return names
	})
}

// Policies offers the names of policies to a shell.
func (c Completer) Policies(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return offered(c.policies, func(read *config.Config) (names []string) {
		for _, p := range read.Policies {
			names = append(names, p.Name)
		}
		return names
	})
}

// Backups offers the names of backups to a shell, the newest first.
func (c Completer) Backups(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	folder, err := BackupFolder(c.Globals)
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
