package setup

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
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
		Example: "  limitctl config show\n  limitctl config show --origin\n  limitctl config show -o json",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, args []string) error { return runConfigShow(o) },
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
	timeout, given := o.GivenBy("timeout")
	if !given {
		timeout = "default"
	}
	answer := &showAnswer{origins: o.origin, c: c,
		from: map[string]string{"store": s.Store.Origin, "prefix": s.Prefix.Origin, "timeout": timeout},
		document: showDocument{SchemaVersion: output.SchemaVersion, Files: c.Read, Store: redisserver.RedactURL(s.Store.Value),
			Context: s.Access().Context, Prefix: s.Prefix.Value, Timeout: o.Timeout.String(), LocalShare: c.LocalShare.String(),
			Breaker: newBreakerDocument(c.Breaker), Policies: map[string]policyDocument{}, Contexts: []contextDocument{},
			Denials: !c.NoDenials, HTTP: map[string]string{}}}
	d := &answer.document
	for _, p := range c.Policies {
		d.Policies[p.Name] = newPolicyDocument(p)
	}
	for i := range c.Layouts {
		d.Layouts = append(d.Layouts, newMappingDocument(&c.Layouts[i]))
	}
	for _, setting := range config.HTTPSettings(c) {
		d.HTTP[setting.Name] = setting.Value
	}
	answer.addFields("", reflect.ValueOf(*d), "schema_version", "files", "context", "http")
	for _, x := range c.Contexts {
		document := newContextDocument(c, x, d.Context)
		d.Contexts = append(d.Contexts, document)
		answer.addFields("contexts."+x.Name, reflect.ValueOf(document), "name", "current", "origin")
	}
	answer.addFields("", reflect.ValueOf(d.HTTP))
	if o.origin {
		d.Origins = map[string]string{}
		for _, row := range answer.rows {
			d.Origins[row.Name] = row.Origin
		}
	}
	return o.Print(answer)
}

// showAnswer is the configuration in effect, with all defaults.
type showAnswer struct {
	origins  bool
	c        *config.Config
	from     map[string]string // origins of what is not only in the file, by path
	document showDocument
	rows     []showRow
}

// showRow is a value of the document, with its path.
type showRow struct {
	Name   string `json:"setting"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

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

// Text is the classes in one line.
func (d *classesDocument) Text() string { return d.text }

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
		limit := policyLimitDocument{l.Name, l.By, l.Stored().String(), l.Cost.String(), l.Shadow, nil,
			newClassesDocument(&l.Classes)}
		for _, override := range l.Exceptions {
			limit.Overrides = append(limit.Overrides, overrideDocument{override.When, override.Limit.Stored().String()})
		}
		document.Limits = append(document.Limits, limit)
	}
	return document
}

// localShare is the share of a fallback store in a policy's limits, empty without on_error: local.
func localShare(p *policy.Policy) string {
	if p.OnError != store.LocalOnError {
		return ""
	}
	return p.LocalShare.String()
}

// addFields adds the values in a document, as they are named in the file, but not the fields to skip.
func (a *showAnswer) addFields(path string, v reflect.Value, skip ...string) {
	below := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch value := v.Interface().(type) {
	case []string:
		a.add(path, config.Listed(value))
		return
	case interface{ Text() string }:
		a.add(path, value.Text())
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for field, value := range v.Fields() {
			name, omits, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && !slices.Contains(skip, name) && (omits == "" || !value.IsZero()) {
				a.addFields(below(name), value)
			}
		}
	case reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			a.addFields(below(name.String()), v.MapIndex(name))
		}
	case reflect.Slice:
		for i := range v.Len() {
			a.addFields(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	default:
		a.add(path, fmt.Sprint(v.Interface()))
	}
}

// add adds a value with its origin: that of its path in the file, or of what it follows from, or the default.
func (a *showAnswer) add(path, value string) {
	origin := a.from[path]
	above, name := path[:strings.LastIndexByte(path, '.')+1], path[strings.LastIndexByte(path, '.')+1:]
	others := map[string][]string{"local_share": {"local_share"}, "limit": {above + "burst", above + "algorithm"},
		"layouts": {above + "layout"}}[name]
	for _, path := range append([]string{path}, others...) {
		if at, said := a.c.Origin(path); said && origin == "" {
			origin = at.String()
		}
	}
	a.rows = append(a.rows, showRow{path, value, cmp.Or(origin, "default")})
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

// Document implements output.Answer.
func (a *showAnswer) Document() any { return a.document }

// Records implements output.Answer.
func (a *showAnswer) Records() [][]string { return output.Rows(a.rows) }

// Print implements output.Answer.
func (a *showAnswer) Print(p *output.Printer) {
	columns := []output.Column{{Header: "SETTING", Shrinks: 20}, {Header: "VALUE", Shrinks: 16}}
	if a.origins {
		columns = append(columns, output.Column{Header: "ORIGIN", Shrinks: 16})
	}
	var rows [][]output.Cell
	for _, row := range a.rows {
		cells := []output.Cell{{Text: row.Name}, {Text: row.Value}}
		if a.origins {
			cells = append(cells, output.Cell{Text: row.Origin, Style: output.Faint})
		}
		rows = append(rows, cells)
	}
	p.Table(columns, rows)
}
