package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/shell"
)

// ConsentOptions are the flags that let a command change keys without a question.
type ConsentOptions struct {
	Yes     bool
	Confirm string
	Reason  string
}

// AddConsentFlags adds the flags of a command that asks before it changes something.
func (o *ConsentOptions) AddConsentFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&o.Confirm, "confirm", "", "`NAME` of the protected context, instead of typing it")
	o.addReasonFlag(cmd, "")
	cmd.RegisterFlagCompletionFunc("confirm", cobra.NoFileCompletions)
}

// AddPublishConsentFlags is AddConsentFlags with a short form of --reason, which every version needs.
func (o *ConsentOptions) AddPublishConsentFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&o.Confirm, "confirm", "", "`NAME` of the protected context, instead of typing it")
	o.addReasonFlag(cmd, "m")
	cmd.Flags().Lookup("reason").Usage = "why (required); the history and the audit log show the `TEXT`"
	cmd.RegisterFlagCompletionFunc("confirm", cobra.NoFileCompletions)
}

// AddChargeConsentFlags adds the flags of a command that asks in a protected context only.
func (o *ConsentOptions) AddChargeConsentFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Confirm, "confirm", "", "`NAME` of the protected context, instead of typing it")
	o.addReasonFlag(cmd, "")
	cmd.RegisterFlagCompletionFunc("confirm", cobra.NoFileCompletions)
}

func (o *ConsentOptions) addReasonFlag(cmd *cobra.Command, short string) {
	cmd.Flags().StringVarP(&o.Reason, "reason", short, "", "why; the audit log shows the `TEXT`")
	cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions)
}

// Given is the consent that the flags give.
func (o *ConsentOptions) Given() operation.Consent {
	return operation.Consent{Yes: o.Yes, Context: o.Confirm, Reason: strings.TrimSpace(o.Reason)}
}

// CheckCharge is check for a command that asks in a protected context only.
func (o *ConsentOptions) CheckCharge(access operation.Access, terminal bool, command string) error {
	if !access.Protected && o.Confirm == "" && !access.ReadOnly {
		return nil
	}
	return o.Check(access, terminal || !access.Protected, command, "changes", "")
}

// Check reports early that the store is read-only, or that the command would have to ask
// and there is no terminal. does is what the command does, such as "deletes"; otherwise names
// the flags that the user can give instead of consent.
func (o *ConsentOptions) Check(access operation.Access, terminal bool, command, does, otherwise string) error {
	consent := o.Given()
	err := consent.Check(access, command)
	var wrong *operation.WrongContextError
	switch {
	case errors.As(err, &wrong) && wrong.InUse == "":
		return Usagef("%s names a context, but no context is in use; nothing was done", shell.Command("--confirm", o.Confirm))
	case wrong != nil && access.Reached:
		return Usagef("%s is not the name of the protected context whose store this is, which is %s; nothing was done",
			shell.Command("--confirm", o.Confirm), wrong.InUse)
	case wrong != nil:
		return Usagef("%s is not the name of the context in use, which is %s; nothing was done",
			shell.Command("--confirm", o.Confirm), wrong.InUse)
	case err != nil:
		return err
	case consent.Covers(access) || terminal:
		return nil
	case access.Reached:
		return Usagef("this is the store of the protected context %s, and there is no terminal to type its name on; give %s%s",
			access.Context,
			shell.Command("--confirm", access.Context), otherwise)
	case access.Protected:
		return Usagef("context %s is protected, and there is no terminal to type its name on; give %s%s", access.Context,
			shell.Command("--confirm", access.Context), otherwise)
	}
	return Usagef("%s asks before it %s, and there is no terminal to ask on; give --yes%s", command, does, otherwise)
}
