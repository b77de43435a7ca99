package test

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe"
	"github.com/limitctl/limitctl/internal/probe/headers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// lookAnswer is the answer of probe without a limit.
type lookAnswer struct {
	*probe.Seen
	endpoint string
	commands []string // that check what this looks like
	began    time.Time
	took     time.Duration
}

// lookDocument is the JSON document of a look.
type lookDocument struct {
	SchemaVersion int    `json:"schema_version"`
	Endpoint      string `json:"endpoint"`
	// Seen: a request was denied, or headers announce a limit.
	Seen bool `json:"seen"`
	// Passed requests of one subject were admitted in PassedInMS, one right after the other, before the first was denied.
	Passed     int           `json:"passed"`
	PassedInMS int64         `json:"passed_in_ms"` // see passed
	Denial     *probe.Denial `json:"denial"`       // the first one, or null
	// Back are the returns: each is when a denied subject was admitted again.
	Back     []probe.Return `json:"back"`
	Dialects []string       `json:"dialects"` // of the headers, the newest first
	Told     []string       `json:"told"`     // what headers announce, such as X-RateLimit-Limit 10
	// LooksLike are limits that answer like that, and Commands check them. They are guesses.
	LooksLike []string `json:"looks_like"`
	Commands  []string `json:"commands"` // one for each of looks_like
	Notes     []string `json:"notes"`
	Requests  int      `json:"requests"`
	Allowed   int      `json:"allowed"`
	Denied    int      `json:"denied"`
	Failed    int      `json:"failed"` // got no decision
	// AllowedUS and DeniedUS are how long half of these requests took at most, in microseconds; 0 if there were none.
	AllowedUS int64     `json:"allowed_us"`
	DeniedUS  int64     `json:"denied_us"` // see allowed_us
	Began     time.Time `json:"began"`
	TookMS    int64     `json:"took_ms"` // how long the look took
}

// Document implements [output.Answer].
func (a *lookAnswer) Document() any {
	d := &lookDocument{
		SchemaVersion: output.SchemaVersion, Endpoint: a.endpoint, Seen: a.Any(),
		Passed: a.Passed, PassedInMS: output.Milliseconds(a.PassedIn),
		Denial: a.Denial, Back: append([]probe.Return{}, a.Back...),
		Dialects: append([]string{}, a.Dialects...), LooksLike: []string{},
		Told: append([]string{}, a.announced()...), Commands: append([]string{}, a.commands...),
		Notes: append([]string{}, a.Notes...), Requests: len(a.Events),
		Allowed: counted(a.Events, endpoint.Allowed), Denied: counted(a.Events, endpoint.Denied),
		Failed:    counted(a.Events, endpoint.Failed),
		AllowedUS: median(a.Events, endpoint.Allowed).Microseconds(), DeniedUS: median(a.Events, endpoint.Denied).Microseconds(),
		Began: output.UTC(a.began), TookMS: output.Milliseconds(a.took),
	}
	for i := range a.LooksLike {
		d.LooksLike = append(d.LooksLike, a.LooksLike[i].String())
	}
	return d
}

// Records implements [output.Answer].
func (a *lookAnswer) Records() [][]string {
	records := [][]string{{"what", "seen"}}
	for _, fact := range a.facts() {
		records = append(records, fact[:])
	}
	return records
}

// facts are what was seen, a name and a text each.
func (a *lookAnswer) facts() (facts [][2]string) {
	add := func(name, format string, values ...any) {
		facts = append(facts, [2]string{name, fmt.Sprintf(format, values...)})
	}
	add("endpoint", "%s", a.endpoint)
	add("headers", "%s", cmp.Or(strings.Join(append(a.announced(), a.Dialects...), ", "), "none tells of a limit"))
	passed := output.Plural(a.Passed, "request") + " passed in " + output.Duration(a.PassedIn)
	switch {
	case a.Denial == nil && a.Passed > 0:
		add("at once", "%s, and none was denied", passed)
	case a.Denial != nil:
		add("at once", "%s, and the next was denied", passed)
		add("denial", "%s", a.denied())
	}
	for _, back := range a.Back {
		units := strconv.Itoa(back.Units)
		if back.Open {
			units += " or more"
		}
		least, most := time.Duration(back.LeastMS)*time.Millisecond, time.Duration(back.MostMS)*time.Millisecond
		add("back", "%s to %s after a denial, %s at once", output.Duration(least), output.Duration(most), units)
	}
	add("requests", "%s", sentInWords(a.Events, a.took))
	return facts
}

// announced is what headers announce.
func (a *lookAnswer) announced() (texts []string) {
	for i := range a.Told {
		text := fmt.Sprintf("%s %d", a.Told[i].CountField, a.Told[i].Count)
		if a.Told[i].Window != headers.NotTold {
			text += " in " + store.FormatPeriod(a.Told[i].Window)
		}
		texts = append(texts, text)
	}
	return texts
}

// denied describes a denial.
func (a *lookAnswer) denied() string {
	text := "OVER_LIMIT" // gRPC's OK
	if d := a.Denial; d.Status != 0 {
		text = strings.TrimSpace(fmt.Sprintf("%d %s", d.Status, http.StatusText(d.Status)))
		text += ", " + map[bool]string{true: "Retry-After: " + d.RetryAfter, false: "no Retry-After"}[d.RetryAfter != ""]
	}
	return text
}

// Print implements [output.Answer].
func (a *lookAnswer) Print(p *output.Printer) {
	printFacts(p, a.facts())
	for _, note := range a.Notes {
		p.Labelled(p.Paint(output.Near, "! "), 2, note)
	}
	if len(a.commands) == 0 {
		return
	}
	fmt.Fprintln(p.Out, "\nThis looks like one of these limits; to check one:")
	for _, command := range a.commands {
		fmt.Fprintln(p.Out, "  "+command)
	}
}
