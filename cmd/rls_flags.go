package cmd

import (
	"github.com/spf13/cobra"
)

// rlsFlags say what an Envoy rate limit service is asked.
type rlsFlags struct {
	domain      string
	descriptors []string
}

func (o *rlsFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.domain, "domain", "", "ask a rate limit service about the domain `NAME`")
	flags.StringArrayVar(&o.descriptors, "descriptor", nil,
		"ask a rate limit service about a descriptor, `KEY=VALUE,...`; {subject} stands for who asks, and \\, for a comma (repeatable)")
	for _, flag := range []string{"domain", "descriptor"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
}

// given reports whether any of the flags is.
func (o *rlsFlags) given() bool { return o.domain != "" || len(o.descriptors) > 0 }
