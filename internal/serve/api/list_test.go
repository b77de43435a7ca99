package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// answersIn returns the answers to a list, as texts.
func answersIn(t *testing.T, text []byte) (answers []string) {
	t.Helper()
	var list struct {
		SchemaVersion int               `json:"schema_version"`
		Answers       []json.RawMessage `json:"answers"`
	}
	if err := json.Unmarshal(text, &list); err != nil || list.SchemaVersion != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	for _, answer := range list.Answers {
		answers = append(answers, string(answer))
	}
	return answers
}

// Each question of a list is answered like one that comes by itself, with its status.
func TestAListIsAnsweredLikeItsQuestions(t *testing.T) {
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	still := func() *memorystore.Store {
		return memorystore.New(memorystore.WithClock(func() time.Time { return now }))
	}
	alone, together := listenerOn(t, still(), time.Minute), listenerOn(t, still(), time.Minute)
	for _, verb := range []string{"check", "consume", "settle", "refund"} {
		questions := []string{
			`{"key":"user:1","limits":["2/1h"],"cost":2,"token":"a"}`,
			`{"key":"user:1","limits":["2/1h"],"token":"b","cost":1}`, // has no room after the first
			` {"policy":"login","attributes":{"email":"a@example.com","ip":"203.0.113.9"},"token":"c","cost":1} `,
			`{"policy":"login","attributes":{"ip":"203.0.113.9","email":"a@example.com"},"token":"d","cost":2}`,
			`{"policy":"logn"}`,
			`{"key":"user:2","limits":["2/1h"],"cost":3,"token":"e"}`,
			`{"key":"user:2","limt":["2/1h"]}`,
			`{"key":"user:2","limits":["2/1h","]},{"]}`,
			`7`, `null`, "{\"key\":\"\xff\"}",
		}
		w, _ := ask(t, together, "POST", "/v1/"+verb, "\n["+strings.Join(questions, ",")+"] ")
		answers := answersIn(t, w.Body.Bytes())
		if w.Code != 200 || len(answers) != len(questions) {
			t.Fatalf("%s: status %d, %d answers: %s", verb, w.Code, len(answers), w.Body)
		}
		statuses := ""
		for i, question := range questions {
			own, _ := ask(t, alone, "POST", "/v1/"+verb, question)
			want := fmt.Sprintf(`{"status":%d,%s`, own.Code, strings.TrimSpace(own.Body.String())[1:])
			statuses += fmt.Sprint(own.Code, " ")
			if answers[i] != want {
				t.Errorf("%s %s\nis answered with %s\nand not      with %s", verb, question, answers[i], want)
			}
		}
		if verb == "consume" && statuses != "200 429 200 429 400 400 400 400 400 400 400 " {
			t.Errorf("%s: %s", verb, statuses)
		}
	}
}

func TestListsThatAreRefused(t *testing.T) {
	const one = `{"key":"a","limits":["1/1h"]}`
	listener := memoryListener(t)
	for body, says := range map[string]string{
		"[":                               "the body ends too early",
		"[ ]":                             "the list is empty; send questions, such as",
		"[" + one + ",]":                  "at byte 31: invalid character ',' at start of value",
		"[" + one + "]x":                  "invalid character 'x' after top-level value",
		"[" + one + ",{]":                 "at byte 33: invalid character ']' at start of string",
		"[" + strings.Repeat("[", 30_000): "exceeded max depth",
		"[" + strings.Repeat(one+",", mostQuestions) + one + "]": "the list has more than 64 questions; send them in several requests",
	} {
		refused(t, listener, "consume", body, says)
	}
	if w, _ := ask(t, listener, "POST", "/v1/check", one); w.Code != 200 {
		t.Error("a list that was refused was charged")
	}
	most := "[" + strings.Repeat(one+",", mostQuestions-1) + one + "]"
	w, _ := ask(t, listener, "POST", "/v1/consume", most)
	if answers := answersIn(t, w.Body.Bytes()); len(answers) != mostQuestions || !strings.HasPrefix(answers[0], `{"status":200,`) ||
		!strings.HasPrefix(answers[1], `{"status":429,`) {
		t.Errorf("the largest list: status %d, %.300s", w.Code, w.Body)
	}
}
