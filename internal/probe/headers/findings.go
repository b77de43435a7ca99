package headers

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/output"
)

// Findings are mistakes in headers: the first of each kind, and how many there are.
type Findings struct {
	kinds []string
	first map[string]string
	count map[string]int
}

// Add adds a mistake that so many answers have.
func (f *Findings) Add(kind string, answers int, format string, args ...any) {
	if f.first == nil {
		f.first, f.count = make(map[string]string), make(map[string]int)
	}
	if f.count[kind] == 0 {
		f.kinds, f.first[kind] = append(f.kinds, kind), fmt.Sprintf(format, args...)
	}
	f.count[kind] += answers
}

// AddProblem adds what is wrong with a field of one answer.
func (f *Findings) AddProblem(problem string) {
	kind, _, _ := strings.Cut(problem, "=")
	kind, _, _ = strings.Cut(kind, ": ")
	f.Add("syntax "+kind, 1, "%s", problem)
}

// Texts returns the findings in words.
func (f *Findings) Texts() (texts []string) {
	for _, kind := range f.kinds {
		text := f.first[kind]
		if n := f.count[kind]; n > 1 {
			text += fmt.Sprintf(" (and %s more)", output.Plural(n-1, "answer"))
		}
		texts = append(texts, text)
	}
	return texts
}

// Retries counts denials by what they say of the wait.
type Retries struct {
	Denials, Told, Missing int
	Status                 int // of the last denial without it
}

// Add counts a denial.
func (s *Retries) Add(status int, r *Reading) {
	s.Denials++
	switch {
	case r.RetryProblem != "":
	case r.RetryAfter == NotTold:
		s.Missing, s.Status = s.Missing+1, status
	default:
		s.Told++
	}
}

// Wrong says that Retry-After is missing where it is asked for: with status 429, and if other denials have it. It is empty if
// all is well.
func (s *Retries) Wrong() string {
	if s.Missing == 0 || s.Status != http.StatusTooManyRequests && s.Told == 0 {
		return ""
	}
	return fmt.Sprintf("missing on %d of %s", s.Missing, output.Plural(s.Denials, "denial"))
}

// ReadAnswer reads all that an answer says about limits. skew is how much the other side's clock is ahead.
func ReadAnswer(answer *endpoint.Answer, skew time.Duration) Reading {
	r := Read(answer.Header, answer.Answered, skew)
	r.readLimits(answer.Limits)
	r.agree()
	return r
}

// agree finds families in one answer whose remaining units differ.
func (r *Reading) agree() {
	var first *Limit
	for i := range r.Families {
		limit := r.Families[i].Tightest()
		switch {
		case limit == nil || limit.Unit != "":
		case first == nil:
			first = limit
		case limit.Remaining != first.Remaining:
			r.problem("%s and %s contradict each other: %d and %d in one answer",
				first.LeftField, limit.LeftField, first.Remaining, limit.Remaining)
		}
	}
}
