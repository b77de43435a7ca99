package setup

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type configShowOptions struct {
	*cli.Globals
	origin bool
}

func newConfigShowCmd(global *cli.Globals) *cobra.Command {
	o := &configShowOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show what is configured, with all defaults",
		Long: `Show prints the settings that commands use here: the store, the prefix, and all
policies, layouts and contexts. With --origin, it shows where each value comes
from: a line of a file, a flag, an environment variable, or the default.`,
		Example:           "  limitctl config show\n  limitctl config show --origin\n  limitctl config show -o json",
		Args:              cli.NoArguments,
		RunE:              func(cmd *cobra.Command, args []string) error { return runConfigShow(o) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.origin, "origin", false, "show where each value comes from")
	return cmd
}

func runConfigShow(o *configShowOptions) error {
	c, err := o.Config()
	if err != nil {
		return err
	}
	s, err := o.Settings()
	if err != nil {
		return err
	}
	answer := &showAnswer{origins: o.origin}
	answer.add("store", redisserver.RedactURL(s.Store.Value), s.Store.Origin)
	answer.add("prefix", s.Prefix.Value, s.Prefix.Origin)
	timeout, given := o.GivenBy("timeout")
	if !given {
		timeout = "default"
	}
	answer.add("timeout", o.Timeout.String(), timeout)
	answer.addFrom(c, "local_share", c.LocalShare.String())
	answer.addFields(c, "breaker", reflect.ValueOf(newBreakerDocument(c.Breaker)))
	answer.document = showDocument{SchemaVersion: output.SchemaVersion, Files: c.Read, Store: redisserver.RedactURL(s.Store.Value),
		Prefix:  s.Prefix.Value,
		Timeout: o.Timeout.String(), LocalShare: c.LocalShare.String(), Breaker: newBreakerDocument(c.Breaker),
		Policies: map[string]policyDocument{}, Contexts: []contextDocument{}}
	name := s.Access().Context
	answer.document.Context = name
	for _, p := range c.Policies {
		answer.document.Policies[p.Name] = newPolicyDocument(p)
		answer.addFields(c, "policies."+p.Name, reflect.ValueOf(answer.document.Policies[p.Name]))
	}
	for i := range c.Layouts {
		answer.document.Layouts = append(answer.document.Layouts, newMappingDocument(&c.Layouts[i]))
	}
	if layouts := answer.document.Layouts; len(layouts) > 0 {
		answer.addFields(c, "layouts", reflect.ValueOf(layouts))
	}
	for _, x := range c.Contexts {
		answer.addContext(c, x)
		answer.document.Contexts = append(answer.document.Contexts, newContextDocument(c, x, name))
	}
	answer.addDenials(c)
	answer.addHTTP(c)
	if o.origin {
		answer.document.Origins = map[string]string{}
		for _, row := range answer.rows {
			answer.document.Origins[row.name] = row.origin
		}
	}
	return o.Print(answer)
}

// addDenials adds whether denials are counted.
func (a *showAnswer) addDenials(c *config.Config) {
	origin := "default"
	if at, said := c.Origin("denials"); said {
		origin = at.String()
	}
	a.add("denials", fmt.Sprint(!c.NoDenials), origin)
	a.document.Denials = !c.NoDenials
}

// addHTTP adds how HTTP requests and Envoy's descriptors are limited.
func (a *showAnswer) addHTTP(c *config.Config) {
	a.document.HTTP = map[string]string{}
	for _, setting := range config.HTTPSettings(c) {
		a.addFrom(c, setting.Name, setting.Value)
		a.document.HTTP[setting.Name] = setting.Value
	}
}

// showAnswer is the configuration in effect, with all defaults.
type showAnswer struct {
	origins  bool
	document showDocument
	rows     []showRow
}

type showRow struct{ name, value, origin string }

type showDocument struct {
	SchemaVersion int                       `json:"schema_version"`
	Files         []string                  `json:"files"`
	Store         string                    `json:"store"`
	Context       string                    `json:"context,omitempty"`
	Prefix        string                    `json:"prefix"`
	Timeout       string                    `json:"timeout"`
	LocalShare    string                    `json:"local_share"`
	Breaker       breakerDocument           `json:"breaker"` // when the store is not asked for a while
	Policies      map[string]policyDocument `json:"policies"`
	Layouts       []mappingDocument         `json:"layouts,omitempty"`
	Contexts      []contextDocument         `json:"contexts"`
	Denials       bool                      `json:"denials"`
	// HTTP is how HTTP requests and Envoy's descriptors are limited, by the settings' paths.
	HTTP    map[string]string `json:"http"`
	Origins map[string]string `json:"origins,omitempty"` // where each setting is from, by its path
}

// breakerDocument has the settings of a breaker if there is one.
type breakerDocument struct {
	Enabled  bool   `json:"enabled"`             // whether there is one
	Failures int    `json:"failures,omitempty"`  // so many failures in a row open it
	Slow     string `json:"slow,omitempty"`      // an answer that takes longer counts as a failure
	Pause    string `json:"pause,omitempty"`     // how long it stays open the first time
	MaxPause string `json:"max_pause,omitempty"` // the longest that it stays open
}

func newBreakerDocument(b *store.Breaker) breakerDocument {
	if b == nil {
		return breakerDocument{}
	}
	return breakerDocument{true, b.Failures, b.Slow.String(), b.Pause.String(), b.MaxPause.String()}
}

type policyDocument struct {
	OnError string `json:"on_error"`
	// LocalShare is present with on_error: local.
	LocalShare string                `json:"local_share,omitempty"`
	HashBy     []string              `json:"hash_by,omitempty"`
	Wait       string                `json:"wait,omitempty"` // how long serve holds a request until its turn
	Limits     []policyLimitDocument `json:"limits"`
}

type policyLimitDocument struct {
	Name      string             `json:"name"`
	By        []string           `json:"by"`
	Limit     string             `json:"limit"`
	Cost      string             `json:"cost,omitempty"`
	Shadow    bool               `json:"shadow"`
	Warn      string             `json:"warn,omitempty"`
	Overrides []overrideDocument `json:"overrides,omitempty"`
	Classes   *classesDocument   `json:"classes,omitempty"`
}

// classesDocument is the classes of a limit.
type classesDocument struct {
	By string `json:"by"`
	// Leave has the share that each class leaves, such as "30%".
	Leave map[string]string `json:"leave"`
	text  string
}

func newClassesDocument(c *policy.Classes) *classesDocument {
	if c.IsZero() {
		return nil
	}
	document := &classesDocument{c.By, map[string]string{}, c.String()}
	for _, class := range c.Of {
		document.Leave[class.Name] = class.Leave.String()
	}
	return document
}

type overrideDocument struct {
	When  policy.Attributes `json:"when"`
	Limit string            `json:"limit"`
}

func newPolicyDocument(p *policy.Policy) policyDocument {
	document := policyDocument{OnError: p.OnError.String(), LocalShare: localShare(p), HashBy: p.HashBy}
	if p.Wait > 0 {
		document.Wait = store.FormatPeriod(p.Wait)
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		limit := policyLimitDocument{l.Name, l.By, l.Stored().String(), l.Cost.String(), l.Shadow, warn(l), nil,
			newClassesDocument(&l.Classes)}
		for _, override := range l.Exceptions {
			limit.Overrides = append(limit.Overrides, overrideDocument{override.When, override.Limit.Stored().String()})
		}
		document.Limits = append(document.Limits, limit)
	}
	return document
}

func (a *showAnswer) add(name, value, origin string) {
	a.rows = append(a.rows, showRow{name, value, origin})
}

// addFrom adds a value with its origin: the first of the paths that the configuration has, or the default.
func (a *showAnswer) addFrom(c *config.Config, name, value string, paths ...string) {
	origin := ""
	for _, path := range append([]string{name}, paths...) {
		if at, said := c.Origin(path); said {
			origin = at.String()
			break
		}
	}
	a.add(name, value, cmp.Or(origin, "default"))
}

// warn is the share of a limit at which warnings begin, empty for never.
func warn(l *policy.Limit) string {
	if l.Warn == 0 {
		return ""
	}
	return l.Warn.String()
}

// localShare is the share of a fallback store in a policy's limits, empty without on_error: local.
func localShare(p *policy.Policy) string {
	if p.OnError != store.LocalOnError {
		return ""
	}
	return p.LocalShare.String()
}

// addFields adds the fields of a document, as they are named in the file, with their origins.
func (a *showAnswer) addFields(c *config.Config, path string, document reflect.Value) {
	switch value := document.Interface().(type) {
	case []string:
		a.addFrom(c, path, config.Listed(value))
		return
	case policy.Attributes:
		a.addFrom(c, path, value.Text())
		return
	case *classesDocument:
		a.addFrom(c, path, value.text)
		return
	}
	switch document.Kind() {
	case reflect.Struct:
		for field, value := range document.Fields() {
			name, omits, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && (omits == "" || !value.IsZero()) {
				a.addFields(c, path+"."+name, value)
			}
		}
	case reflect.Slice:
		for i := range document.Len() {
			a.addFields(c, fmt.Sprintf("%s[%d]", path, i), document.Index(i))
		}
	default:
		above, name := path[:strings.LastIndexByte(path, '.')], path[strings.LastIndexByte(path, '.')+1:]
		others := map[string][]string{"local_share": {"local_share"}, "limit": {above + ".burst", above + ".algorithm"}}[name]
		a.addFrom(c, path, fmt.Sprint(document.Interface()), others...)
	}
}

// mappingDocument is a mapping of keys of another limiter.
type mappingDocument struct {
	Layout string `json:"layout"`
	Keys   string `json:"keys,omitempty"`
	Limit  string `json:"limit,omitempty"`
}

func newMappingDocument(m *config.Mapping) mappingDocument {
	d := mappingDocument{Layout: m.Layout.Info().Name, Limit: m.Text}
	if !m.Keys.IsZero() {
		d.Keys = m.Keys.String()
	}
	return d
}

func (a *showAnswer) addContext(c *config.Config, x *config.Context) {
	path := "contexts." + x.Name
	a.addFrom(c, path+".store", redisserver.RedactURL(x.Store))
	for _, field := range [][2]string{{"prefix", x.Prefix}, {"password_file", x.PasswordFile}, {"password_env", x.PasswordEnv}} {
		if field[1] != "" {
			a.addFrom(c, path+"."+field[0], field[1])
		}
	}
	if len(x.Layouts) > 0 {
		a.addFrom(c, path+".layout", strings.Join(x.Layouts, ", "))
	}
	a.addFrom(c, path+".read_only", fmt.Sprint(x.ReadOnly))
	a.addFrom(c, path+".protected", fmt.Sprint(x.Protected))
}

// Document implements output.Answer.
func (a *showAnswer) Document() any { return a.document }

// Records implements output.Answer.
func (a *showAnswer) Records() [][]string {
	records := [][]string{{"setting", "value", "origin"}}
	for _, row := range a.rows {
		records = append(records, []string{row.name, row.value, row.origin})
	}
	return records
}

// Print implements output.Answer.
func (a *showAnswer) Print(p *output.Printer) {
	columns := []output.Column{{Header: "SETTING", Shrinks: 20}, {Header: "VALUE", Shrinks: 16}}
	if a.origins {
		columns = append(columns, output.Column{Header: "ORIGIN", Shrinks: 16})
	}
	var rows [][]output.Cell
	for _, row := range a.rows {
		cells := []output.Cell{{Text: row.name}, {Text: row.value}}
		if a.origins {
			cells = append(cells, output.Cell{Text: row.origin, Style: output.Faint})
		}
		rows = append(rows, cells)
	}
	p.Table(columns, rows)
}
