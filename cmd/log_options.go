package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/files"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// logOptions say how to read recorded traffic.
type logOptions struct {
	file       string
	logFormat  string
	timeField  string
	keyFields  []string
	costField  string
	attributes []string

	traceFrom trace.Options
	// fieldOf says which field of the log an attribute is.
	fieldOf policy.Attributes
}

func (o *logOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.logFormat, "log-format", "auto", "`FORMAT` of the log: "+strings.Join(trace.FormatNames(), ", "))
	flags.StringVar(&o.timeField, "time-field", "", "`FIELD` that says when a request was (default time)")
	flags.StringArrayVar(&o.keyFields, "key-field", nil, "`FIELD` that says who is limited; repeat it for who is limited by several together (default ip of an access log, else key)")
	flags.StringVar(&o.costField, "cost-field", "", "`FIELD` with the units a request takes; one without it takes 1 (default cost, if there is one)")
	flags.StringArrayVar(&o.attributes, "attribute", nil, "`NAME=FIELD`: the policies' attribute of that name is in that field (default the field of its name)")
	cmd.RegisterFlagCompletionFunc("log-format", cobra.FixedCompletions(trace.FormatNames(), cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range logFlags()[1:] {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
}

// logFlags are the flags about a log.
func logFlags() []string {
	return []string{"log-format", "time-field", "key-field", "cost-field", "attribute"}
}

// parse finds which fields the limits, if there are any, and the policies are by.
func (o *logOptions) parse(cmd *cobra.Command, limits bool, policies []*policy.Policy) (err error) {
	for _, flag := range []string{"time-field", "cost-field"} {
		if cmd.Flags().Changed(flag) && cmd.Flags().Lookup(flag).Value.String() == "" {
			return usagef("--%s is empty; give it a value or leave it out", flag)
		}
	}
	if o.traceFrom.Format, err = trace.ParseFormat(o.logFormat); err != nil {
		return usagef("--log-format: %s", err)
	}
	o.traceFrom.Time, o.traceFrom.Cost, o.traceFrom.Key = o.timeField, o.costField, o.keyFields
	for i, name := range o.keyFields {
		if name == "" || slices.Index(o.keyFields, name) < i {
			return usagef("--key-field %q is empty or given twice; name each field once", name)
		}
	}
	if o.fieldOf, err = policy.ParseAttributes(o.attributes); err != nil {
		return usagef("--attribute: %s", err)
	}
	switch {
	case len(policies) == 0 && len(o.attributes) > 0:
		return usagef("--attribute is about the attributes of a --policy, and none is given")
	case len(policies) > 0 && !limits && len(o.keyFields) > 0:
		return usagef("--key-field is about a --limit, and none is given; a policy's fields are said by --attribute NAME=FIELD")
	}
	used := policy.Attributes{}
	for _, p := range policies {
		names, needed := p.Attributes()
		for _, name := range names {
			used[name] = o.fieldFor(name)
			field := trace.Field{Name: used[name], Optional: !needed[name]}
			if !limits && !field.Optional {
				o.traceFrom.Key = append(o.traceFrom.Key, field.Name)
			} else {
				o.traceFrom.Further = append(o.traceFrom.Further, field)
			}
		}
	}
	for _, name := range o.fieldOf.Names() {
		if len(policies) > 0 && used[name] == "" {
			return usagef("--attribute %s is of none of the policies; they know %s", name, strings.Join(used.Names(), ", "))
		}
	}
	return nil
}

// fieldFor returns the field that an attribute of a policy is in.
func (o *logOptions) fieldFor(attribute string) string {
	if field, said := o.fieldOf[attribute]; said {
		return field
	}
	return attribute
}

// logName is what to call the log.
func (o *logOptions) logName() string {
	if o.file == "-" {
		return "standard input"
	}
	return output.Printable(o.file)
}

// read reads the log. warnings are what a reader of the figures must know of it; they
// are told at once, too.
func (o *logOptions) read(ctx context.Context, g *globalOptions) (log *trace.Trace, warnings []string, err error) {
	in := g.env.In
	if o.file != "-" {
		file, err := g.env.Open(o.file)
		if err != nil {
			return nil, nil, o.logError(err)
		}
		defer file.Close()
		in = file
	}
	if log, err = trace.Read(ctx, in, o.traceFrom); err != nil {
		return nil, nil, o.logError(err)
	}
	return log, g.logWarnings(log), nil
}

// logError says which file an error is about.
func (o *logOptions) logError(err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case files.IsNotAFile(err):
		return usagef("the log %s cannot be read: %s; give - instead, and the log as standard input", o.logName(), cause(err))
	case errors.As(err, &path):
		return usagef("the log %s cannot be read: %s", o.logName(), path.Err)
	}
	return fmt.Errorf("%s: %w", o.logName(), err)
}

func (g *globalOptions) logWarnings(log *trace.Trace) []string {
	var warnings []string
	warn := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		warnings = append(warnings, text)
		g.warnBesideReport(text)
	}
	if log.Bad > 0 {
		first := log.FirstBad[0]
		warn("%d of %d lines could not be read and are left out; line %d, %q: %s", log.Bad, log.Lines, first.Number, first.Excerpt, first.Reason)
		for _, bad := range log.FirstBad[1:] {
			g.warn(fmt.Sprintf("line %d, %q: %s", bad.Number, bad.Excerpt, bad.Reason))
		}
	}
	if log.OutOfOrder > 0 {
		warn("%d of %d lines were out of order, and were put in order", log.OutOfOrder, log.Lines)
	}
	if log.Damage != "" {
		warn("the log is not whole: %s; what was read before counts", log.Damage)
	}
	return warnings
}

// warnBesideReport tells what is in the report, too, if that is for a program to read.
func (g *globalOptions) warnBesideReport(text string) {
	if g.format.String() != "table" {
		g.warn(text)
	}
}

func (g *globalOptions) warn(text string) {
	if !g.quiet {
		g.note("warning: %s", text)
	}
}

// keyIndexes returns which of the trace's fields the limits are by, and their names.
func (o *logOptions) keyIndexes(log *trace.Trace) (indexes []int, names []string) {
	if len(o.keyFields) == 0 {
		return []int{0}, log.Fields[:1]
	}
	for _, name := range o.keyFields {
		indexes = append(indexes, slices.Index(log.Fields, name))
	}
	return indexes, o.keyFields
}

// attributeIndexes returns which of the trace's fields a policy's attributes are, and
// their names.
func (o *logOptions) attributeIndexes(log *trace.Trace, p *policy.Policy) (indexes []int, names []string) {
	names, _ = p.Attributes()
	for _, name := range names {
		indexes = append(indexes, slices.Index(log.Fields, o.fieldFor(name)))
	}
	return indexes, names
}

// candidate returns limits decided together, or a policy, to try on a log, and what to
// call each of the fields that they are by.
func (o *logOptions) candidate(log *trace.Trace, v *variant) (c loadgen.Candidate, names []string) {
	if v.policy == nil {
		indexes, names := o.keyIndexes(log)
		return loadgen.UnderLimits(indexes, v.limits...), names
	}
	indexes, names := o.attributeIndexes(log, v.policy)
	return loadgen.UnderPolicy(indexes, names, v.policy), names
}

// subjectWords is what to call who is limited by the fields of those names: the value
// or, of a policy or several fields, the names, too.
func subjectWords(values, names []string, isPolicy bool) string {
	if len(values) == 1 && !isPolicy {
		return values[0]
	}
	var words []string
	for i, value := range values {
		if value != "" {
			words = append(words, names[i]+"="+value)
		}
	}
	return strings.Join(words, " ")
}
