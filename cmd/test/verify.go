package test

import (
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

type verifyOptions struct {
	*cli.Globals
	logOptions
	reporting
	experimentLimitFlags
	policyName string
	denied     []int
	clockError time.Duration
}

// NewVerifyCmd makes limitctl verify.
func NewVerifyCmd(global *cli.Globals) *cobra.Command {
	o := &verifyOptions{Globals: global}
	o.logFormat = "auto"
	cmd := &cobra.Command{
		Use:   "verify FILE... --limit [ALGORITHM:]COUNT/PERIOD... | verify FILE... --policy NAME",
		Short: "Judge the answers that vegeta, k6 or others recorded",
		Long: `Verify audits the answers in files as loadtest audits those of a URL, as far as
it is certain that one is wrong. So a load that needs many machines can be sent
by another program.

A FILE, or standard input for -, is of "vegeta encode" (json), of
"k6 run --out" (json or csv), or JSON lines or CSV with the fields start, end,
subject, status (0 for no answer) and headers. Times are Unix seconds or RFC
3339. k6 records no headers. The files can be compressed with gzip. They must
hold all requests that the subjects sent: without a line nothing is certain, so
one that cannot be read is an error. What was in use before is not known.

Exit codes: 0 pass; 1 fail, or too little was seen; 2 a file cannot be read.`,
		Example: `  limitctl verify results.json --limit 100/1m
  limitctl verify a.json b.json c.json --limit 100/1m --key-field user --clock-error 5ms
  limitctl verify answers.csv --limit sliding-log:20/10s --denied-status 429,503 --html answers.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no FILE given; name one, as in `%s results.json --limit 100/1m`", cmd.CommandPath())
			}
			for i, file := range args {
				if slices.Contains(args[:i], file) {
					return cli.Usagef("%s is given twice; its requests would count twice", output.Printable(file))
				}
			}
			return nil
		},
		RunE: o.run,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.limits, "limit", "l", nil,
		"`[ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N]`, such as 30/1m; repeat it to decide several together")
	flags.StringVar(&o.policyName, "policy", "", "the limits are those of the policy `NAME`")
	flags.StringArrayVar(&o.keyFields, "key-field", nil,
		"`FIELD` that says who is limited: a column, a tag of k6, a field "+
			"of vegeta's query or header; repeat it for several together (default subject, or all are one)")
	o.addAttribute(flags)
	flags.IntSliceVar(&o.denied, "denied-status", []int{http.StatusTooManyRequests},
		"`STATUS` of denials, or several with commas between")
	cli.DurationFlag(flags, &o.clockError, "clock-error", "", 0,
		"the clocks of the machines that recorded are off by up to `DURATION`")
	cli.GroupFlags(cmd, reportingTitle, o.reporting.flags("save", "html", "threshold", "markdown", "junit",
		"max-errors"))
	o.strict = true // there is no flag for it
	cmd.RegisterFlagCompletionFunc("policy", cli.Offers(global).Policies)
	return cmd
}

func (o *verifyOptions) run(cmd *cobra.Command, args []string) error {
	v := &experiment.Verification{Denied: o.denied, ClockError: o.clockError,
		Log: &experiment.Log{Trace: new(trace.Trace)}}
	if (len(o.limits) == 0) == !cmd.Flags().Changed("policy") {
		return cli.Usagef("give a --limit COUNT/PERIOD, such as 100/1m, or a --policy NAME")
	}
	if err := checkDenied(o.denied); err != nil {
		return err
	}
	if o.clockError < 0 || o.clockError > time.Hour {
		return cli.Usagef("--clock-error must be from 0 to 1h")
	}
	var judged []store.Limit
	if len(o.limits) > 0 {
		candidates, err := o.candidates(false)
		if err != nil {
			return err
		}
		v.Candidate, judged = candidates[0], candidates[0].Limits
	} else {
		configured, err := o.ConfigFor(cmd.Context())
		if err != nil {
			return err
		}
		if v.Candidate.Policy, err = configured.Policy(o.policyName); err != nil {
			return err
		}
		v.Log.HTTP = configured.HTTP
		for i := range v.Candidate.Policy.Limits {
			judged = append(judged, v.Candidate.Policy.Limits[i].Stored())
		}
	}
	for i := range judged {
		if err := notInCalendar(&judged[i]); err != nil {
			return err
		}
	}
	reading, err := o.logOptions.parse(cmd, []experiment.Candidate{v.Candidate})
	if err == nil && reading.from.Cost != "" {
		err = cli.Usagef("policy %s has the cost %s, which is in no record", o.policyName, reading.from.Cost)
	}
	if err == nil {
		err = o.reporting.parse(cmd, o.Globals, report.LoadTest, args...)
	}
	if err != nil {
		return err
	}
	v.Log.KeyFields, v.Log.FieldOf, v.Log.Name = reading.keyFields, reading.fieldOf, output.Printable(args[0])
	if len(args) > 1 {
		v.Log.Name = output.Count(len(args), "file")
	}
	for _, file := range args {
		if err := readFile(o.Globals, file, func(in io.Reader) error {
			return v.Read(cmd.Context(), in, reading.from)
		}); err != nil {
			return err
		}
	}
	document, err := v.Report()
	if err != nil {
		return err
	}
	return o.finish(o.Globals, document)
}
