package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/shell"
)

// consentOptions say what a command that changes keys others use may do without asking.
type consentOptions struct {
	yes     bool
	confirm string
	reason  string
}

func (o *consentOptions) addConsentFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&o.confirm, "confirm", "", "the `NAME` of the protected context, instead of typing it")
	o.addReasonFlag(cmd)
	cmd.RegisterFlagCompletionFunc("confirm", cobra.NoFileCompletions)
}

// addChargeConsentFlags adds the flags of a command that asks in a protected context only.
func (o *consentOptions) addChargeConsentFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.confirm, "confirm", "", "the `NAME` of the protected context, instead of typing it")
	o.addReasonFlag(cmd)
	cmd.RegisterFlagCompletionFunc("confirm", cobra.NoFileCompletions)
}

func (o *consentOptions) addReasonFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, in a `TEXT` for others; the audit shows it")
	cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions)
}

// given is the consent that the flags give.
func (o *consentOptions) given() operation.Consent {
	return operation.Consent{Yes: o.yes, Context: o.confirm, Reason: strings.TrimSpace(o.reason)}
}

// checkCharge is check for a command that asks in a protected context only.
func (o *consentOptions) checkCharge(access operation.Access, terminal bool, command string) error {
	if !access.Protected && o.confirm == "" && !access.ReadOnly {
		return nil
	}
	return o.check(access, terminal || !access.Protected, command, "changes", "")
}

// check reports early that nothing may be changed, or that the command would have to ask
// and there is no terminal. does is what the command does, such as "deletes", and
// otherwise is what else the user can give than consent.
func (o *consentOptions) check(access operation.Access, terminal bool, command, does, otherwise string) error {
	consent := o.given()
	err := consent.Check(access, command)
	var wrong *operation.WrongContextError
	switch {
	case errors.As(err, &wrong) && wrong.InUse == "":
		return usagef("%s names a context, but no context is in use; nothing was done", shell.Command("--confirm", o.confirm))
	case wrong != nil && access.Reached:
		return usagef("%s is not the name of the protected context whose store this is, which is %s; nothing was done",
			shell.Command("--confirm", o.confirm), wrong.InUse)
	case wrong != nil:
		return usagef("%s is not the name of the context in use, which is %s; nothing was done",
			shell.Command("--confirm", o.confirm), wrong.InUse)
	case err != nil:
		return err
	case consent.Covers(access) || terminal:
		return nil
	case access.Reached:
		return usagef("this is the store of the protected context %s, and there is no terminal to type its name on; give %s%s", access.Context,
			shell.Command("--confirm", access.Context), otherwise)
	case access.Protected:
		return usagef("context %s is protected, and there is no terminal to type its name on; give %s%s", access.Context,
			shell.Command("--confirm", access.Context), otherwise)
	}
	return usagef("%s asks before it %s, and there is no terminal to ask on; give --yes%s", command, does, otherwise)
}
