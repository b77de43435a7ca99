package test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/probe"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// lookAnswer is the answer of probe without a limit, and its JSON document.
type lookAnswer struct {
	SchemaVersion int `json:"schema_version"`
	sentDocument
	// Seen: a request was denied, or headers announce a limit.
	Seen bool `json:"seen"`
	// Passed requests of one subject were admitted in PassedInMS, one right after the other, before the first was
	// denied.
	Passed     int           `json:"passed"`
	PassedInMS int64         `json:"passed_in_ms"` // see passed
	Denial     *probe.Denial `json:"denial"`       // the first one, or null
	// Back are the returns: each is when a denied subject was admitted again.
	Back []probe.Return `json:"back"`
	Told []string       `json:"told"` // what headers announce, such as X-RateLimit-Limit 10
	// LooksLike are limits that answer like that, and Commands check them. They are guesses.
	LooksLike []string `json:"looks_like"`
	Commands  []string `json:"commands"` // one for each of looks_like
}

// newLookAnswer says what was seen. checkedBy is the command that checks a limit.
func newLookAnswer(s sentDocument, seen *probe.Seen, checkedBy func(*store.Limit) string) *lookAnswer {
	a := &lookAnswer{SchemaVersion: output.SchemaVersion, sentDocument: s, Seen: seen.Any(), Passed: seen.Passed,
		PassedInMS: output.Milliseconds(seen.PassedIn), Denial: seen.Denial,
		Back: append([]probe.Return{}, seen.Back...), Told: []string{}, LooksLike: []string{}, Commands: []string{}}
	for i := range seen.Told {
		a.Told = append(a.Told, seen.Told[i].Text())
	}
	for i := range seen.LooksLike {
		a.LooksLike = append(a.LooksLike, seen.LooksLike[i].String())
		a.Commands = append(a.Commands, checkedBy(&seen.LooksLike[i]))
	}
	return a
}

// Print implements [output.Answer].
func (a *lookAnswer) Print(p *output.Printer) {
	ms := func(n int64) string { return output.Duration(time.Duration(n) * time.Millisecond) }
	facts := [][2]string{{"endpoint", a.Endpoint},
		{"headers", cmp.Or(strings.Join(append(append([]string{}, a.Told...), a.Dialects...), ", "),
			"none tells of a limit")}}
	passed := output.Count(a.Passed, "request") + " passed in " + ms(a.PassedInMS)
	if a.Denial != nil {
		facts = append(facts, [2]string{"at once", passed + ", and the next was denied"},
			[2]string{"denial", denialInWords(a.Denial)})
	} else if a.Passed > 0 {
		facts = append(facts, [2]string{"at once", passed + ", and none was denied"})
	}
	for _, back := range a.Back {
		more := map[bool]string{true: " or more"}[back.Open]
		facts = append(facts, [2]string{"back", fmt.Sprintf("%s to %s after a denial, %d%s at once", ms(back.LeastMS),
			ms(back.MostMS), back.Units, more)})
	}
	printFacts(p, append(facts, [2]string{"requests", a.inWords()}))
	printNotes(p, a.Notes)
	if len(a.Commands) == 0 {
		return
	}
	fmt.Fprintln(p.Out, "\nThis looks like one of these limits; to check one:")
	for _, command := range a.Commands {
		fmt.Fprintln(p.Out, "  "+command)
	}
}

// denialInWords describes a denial.
func denialInWords(d *probe.Denial) string {
	if d.Status == 0 {
		return "OVER_LIMIT" // gRPC's OK
	}
	retry := "no Retry-After"
	if d.RetryAfter != "" {
		retry = "Retry-After: " + d.RetryAfter
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", d.Status, http.StatusText(d.Status))) + ", " + retry
}
