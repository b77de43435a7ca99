package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/progress"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// logOptions are the flags about recorded traffic.
type logOptions struct {
	logFormat  string
	timeField  string
	keyFields  []string
	costField  string
	attributes []string
}

func (o *logOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.logFormat, "log-format", "auto", "`FORMAT` of the log: "+strings.Join(trace.FormatNames(), ", ")+
		", or in nginx's own words, such as '$remote_addr [$time_local] \"$request\" $status'")
	flags.StringVar(&o.timeField, "time-field", "", "`FIELD` that says when a request was (default time)")
	flags.StringArrayVar(&o.keyFields, "key-field", nil,
		"`FIELD` that says who is limited; repeat it to limit by several fields together (default ip of an access "+
			"log, else key)")
	flags.StringVar(&o.costField, "cost-field", "",
		"`FIELD` with the units that a request takes; without it a request takes 1 (default cost, if there is one, or "+
			"the cost field of a policy's limits)")
	o.addAttribute(flags)
	cmd.RegisterFlagCompletionFunc("log-format",
		cobra.FixedCompletions(trace.FormatNames(), cobra.ShellCompDirectiveNoFileComp))
}

func (o *logOptions) addAttribute(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.attributes, "attribute", nil,
		"`NAME=FIELD`: the attribute NAME of the policies is in the field FIELD (default the field of that name)")
}

// logReading is how to read a log.
type logReading struct {
	from trace.Options
	// The fields that identify callers, in the form of a [experiment.Log].
	keyFields []string
	fieldOf   policy.Attributes
}

// parse returns how to read the log for the candidates.
func (o *logOptions) parse(cmd *cobra.Command, candidates []experiment.Candidate) (r *logReading, err error) {
	if err := cli.NotEmpty(cmd, "time-field", "cost-field"); err != nil {
		return nil, err
	}
	r = &logReading{keyFields: o.keyFields}
	if strings.Contains(o.logFormat, "$") {
		r.from.Nginx = o.logFormat
	} else if r.from.Format, err = trace.ParseFormat(o.logFormat); err != nil {
		return nil, cli.Usagef("--log-format: %s, or what nginx's log_format has, such as '$remote_addr "+
			"[$time_local] …'", err)
	}
	r.from.Time, r.from.Cost, r.from.Key = o.timeField, o.costField, o.keyFields
	for i, name := range o.keyFields {
		if name == "" || slices.Index(o.keyFields, name) < i {
			return nil, cli.Usagef("--key-field %q is empty or given twice; name each field once", name)
		}
	}
	if r.fieldOf, err = policy.ParseAttributes(o.attributes); err != nil {
		return nil, cli.Usagef("--attribute: %s", err)
	}
	return r, r.addFields(candidates)
}

// addFields adds the fields with the attributes of the policies, and the cost field of their limits, unless the flags
// name others.
func (r *logReading) addFields(candidates []experiment.Candidate) error {
	limits, policies, costs := false, false, map[string]bool{}
	log, used := &experiment.Log{FieldOf: r.fieldOf}, policy.Attributes{}
	for _, c := range candidates {
		limits, policies = limits || c.Policy == nil, policies || c.Policy != nil
	}
	switch {
	case !policies && len(r.fieldOf) > 0:
		return cli.Usagef("--attribute needs a --policy, whose attributes it is for")
	case !limits && len(r.keyFields) > 0:
		return cli.Usagef("--key-field needs a --limit; name a policy's fields by --attribute NAME=FIELD")
	}
	for _, c := range candidates {
		if c.Policy == nil {
			continue
		}
		for _, cost := range c.Policy.CostFields() {
			costs[cost] = true
			r.from.Cost = cmp.Or(r.from.Cost, cost)
		}
		names, needed := c.Policy.Attributes()
		for _, name := range names {
			used[name] = log.FieldFor(name)
			field := trace.Field{Name: used[name], Optional: !needed[name]}
			if !limits && !field.Optional {
				r.from.Key = append(r.from.Key, field.Name)
			} else {
				r.from.Further = append(r.from.Further, field)
			}
		}
	}
	if len(costs) > 1 {
		return cli.Usagef("the policies have the costs %s, and the requests of an experiment have one; try limits "+
			"with one of them",
			strings.Join(slices.Sorted(maps.Keys(costs)), " and "))
	}
	for _, name := range r.fieldOf.Names() {
		if policies && used[name] == "" {
			return cli.Usagef("--attribute %s is not an attribute of the policies; they know %s", name,
				strings.Join(used.Names(), ", "))
		}
	}
	return nil
}

// logName is the name of a file in messages; - is standard input.
func logName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return output.Printable(file)
}

// readFile opens a file and has it read. It adds the name of the file to an error.
func readFile(g *cli.Globals, file string, read func(io.Reader) error) error {
	in, err := io.NopCloser(g.Env.In), error(nil)
	if file != "-" {
		in, err = files.Open(file)
	}
	if err == nil {
		defer in.Close()
		w := &watched{Reader: in, bar: g.Progress("reading", "")}
		defer w.bar.Close()
		if file, is := in.(files.File); is {
			if info, failed := file.Stat(); failed == nil {
				w.size = info.Size()
			}
		}
		err = read(w)
	}
	var path *fs.PathError
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &path), files.IsNotAFile(err):
		return cli.Usagef("the log %s cannot be read: %s", logName(file), cli.Cause(err))
	case errors.Is(err, trace.ErrOptions):
		return fmt.Errorf("%s: %w (--log-format, --time-field, --key-field)", logName(file), err)
	}
	return fmt.Errorf("%s: %w", logName(file), err)
}

// watched shows how far a log has been read.
type watched struct {
	io.Reader
	bar        *progress.Bar
	done, size int64
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.done += int64(n)
	w.bar.Say(w.done, w.size, " "+output.Bytes(w.done))
	return n, err
}

// read reads the log, and prints warnings about it at once.
func (r *logReading) read(ctx context.Context, g *cli.Globals, file string) (*experiment.Log, error) {
	read := &experiment.Log{Name: logName(file), KeyFields: r.keyFields, FieldOf: r.fieldOf}
	err := readFile(g, file, func(in io.Reader) (err error) {
		read.Trace, err = trace.Read(ctx, in, r.from)
		return err
	})
	if err != nil {
		return nil, err
	}
	read.Notes = logWarnings(read.Trace)
	if c, err := g.ConfigFor(ctx); err == nil {
		read.HTTP = c.HTTP
	}
	return read, nil
}

// logWarnings returns warnings about the log for the report.
func logWarnings(log *trace.Trace) []string {
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if log.Bad > 0 {
		first := log.FirstBad
		warn("%s of %s could not be read and are left out; line %d, %q: %s", output.Thousands(int64(log.Bad)),
			output.Count(log.Lines, "line"), first.Number, first.Excerpt, first.Reason)
	}
	if log.OutOfOrder > 0 {
		warn("%s of %s were out of order, and were put in order", output.Thousands(int64(log.OutOfOrder)),
			output.Count(log.Lines, "line"))
	}
	if log.WithoutZone {
		warn("times without a zone were taken as UTC")
	}
	return warnings
}
