package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/serve/refusal"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostQuestions is the most questions in one body.
const mostQuestions = store.MaxRequests

// serveList answers a list of questions, each as if it came by itself, also if there is a mistake in another one. Those about the
// same subject are decided in their order, others together, so that a store that merges calls decides them in few.
func (l *listener) serveList(w http.ResponseWriter, r *http.Request, v *verb, body []byte) {
	var questions []jsontext.Value // which are checked one by one
	err := wrongBody(json.Unmarshal(body, &questions, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
	switch {
	case err != nil:
	case len(questions) == 0:
		err = store.Invalidf(`the list is empty; send questions, such as [{"key":"user:42","limits":["10/1m"]}]`)
	case len(questions) > mostQuestions:
		err = store.Invalidf("the list has more than %d questions; send them in several requests", mostQuestions)
	}
	if err != nil {
		l.refuse(w, err)
		return
	}
	calls, answers := make([]call, len(questions)), make([][]byte, len(questions))
	bySubject := map[string][]int{}
	for i, question := range questions {
		l.read(&calls[i], v, question)
		who := calls[i].about()
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
				l.decide(ctx, &calls[i])
				status, document := l.document(v, &calls[i])
				text, err := output.JSON(document)
				if err != nil { // texts and numbers can always be written
					panic(err)
				}
				answers[i] = fmt.Appendf(nil, `{"status":%d,%s`, status, text[1:])
			}
		})
	}
	if err := all.Wait(); err != nil {
		l.refuse(w, err)
		return
	}
	refusal.WriteText(w, http.StatusOK, fmt.Appendf(nil, `{"schema_version":%d,"answers":[%s]}`, output.SchemaVersion,
		bytes.Join(answers, []byte(","))))
}

// about says who a question is about: equal for equal keys, and for equal policies and attributes.
func (q *question) about() string {
	same := *q
	same.Attributes = slices.Clone(q.Attributes)
	slices.SortFunc(same.Attributes, func(a, b policy.Attribute) int { return strings.Compare(a.Name, b.Name) })
	return valueOf(q.Policy) + " " + same.subject()
}
