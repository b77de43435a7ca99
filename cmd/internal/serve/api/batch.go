package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostQuestions is the most questions in one body.
const mostQuestions = store.MaxRequests

// isList reports whether a body is a list of questions.
func isList(body []byte) bool {
	rest := bytes.TrimLeft(body, " \t\r\n")
	return len(rest) > 0 && rest[0] == '['
}

// questionsIn splits a body into its questions. Each is read by itself later, so that a mistake in one does not concern the others.
// An error here is about the list.
func questionsIn(body []byte) (questions []json.RawMessage, err error) {
	err = json.Unmarshal(body, &questions)
	switch {
	case err != nil:
		return nil, wrongBody(nil, err)
	case len(questions) == 0:
		return nil, store.Invalidf(`the list is empty; send questions, such as [{"key":"user:42","limits":["10/1m"]}]`)
	case len(questions) > mostQuestions:
		return nil, store.Invalidf("the list has more than %d questions; send them in several requests", mostQuestions)
	}
	return questions, nil
}

// serveList answers a list of questions, each as if it came by itself. Those about the same subject are decided in their order,
// others together, so that a store that merges calls decides them in few.
func (l *listener) serveList(w http.ResponseWriter, r *http.Request, v *verb, body []byte) {
	questions, err := questionsIn(body)
	if err != nil {
		l.refuse(w, err)
		return
	}
	calls, answers := make([]*call, len(questions)), make([][]byte, len(questions))
	bySubject := map[string][]int{}
	for i, question := range questions {
		if calls[i], err = l.read(v, question); err != nil {
			answers[i] = l.refusalIn(err)
			continue
		}
		who := calls[i].question.about()
		bySubject[who] = append(bySubject[who], i)
	}
	ctx := r.Context()
	if l.options.ListTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.options.ListTime)
		defer cancel()
	}
	var all panics.Group
	for _, places := range bySubject {
		all.Go(func() {
			for _, i := range places {
				answers[i] = l.answerIn(ctx, v, calls[i])
			}
		})
	}
	if err := all.Wait(); err != nil {
		l.refuse(w, err)
		return
	}
	w.Header()["Content-Type"] = contentType
	text := append([]byte(`{"schema_version":`), strconv.Itoa(output.SchemaVersion)...)
	text = append(append(text, `,"answers":[`...), bytes.Join(answers, []byte(","))...)
	w.Write(append(text, "]}\n"...))
}

// about says who a question is about: equal for equal keys, and for equal policies and attributes.
func (q *question) about() string {
	same := *q
	same.Attributes.value = slices.Clone(q.Attributes.value)
	slices.SortFunc(same.Attributes.value, func(a, b policy.Attribute) int { return strings.Compare(a.Name, b.Name) })
	return q.Policy.value + " " + same.subject()
}

// answerIn returns the answer to a question in a list.
func (l *listener) answerIn(ctx context.Context, v *verb, c *call) []byte {
	if err := l.answer(ctx, v, c); err != nil {
		return l.refusalIn(err)
	}
	return withStatus(c.status(), c.appendAnswer(v, nil))
}

// refusalIn returns the error document for a question in a list.
func (l *listener) refusalIn(err error) []byte {
	kind, message := l.explain(err)
	text, err := output.JSON(refusal.Document(kind.Word, message, kind == outcome.OutcomeUnknown))
	if err != nil { // questions and numbers can always be written
		panic(err)
	}
	return withStatus(kind.Status, text)
}

// withStatus returns a document with the status that it would have by itself.
func withStatus(status int, document []byte) []byte {
	text := append(strconv.AppendInt([]byte(`{"status":`), int64(status), 10), ',')
	return append(text, document[1:]...)
}
