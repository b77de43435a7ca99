package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe"
)

// Denials that keep the subject out, or that are slow, are in the document as well, and nothing passed where nothing was decided.
func TestALookSaysTheSameInAllForms(t *testing.T) {
	for _, renews := range []bool{true, false} {
		now := time.Now()
		tarpit := probe.Event{Answer: endpoint.Answer{Sent: now, Answered: now.Add(1200 * time.Millisecond), Outcome: endpoint.Denied}}
		a := &lookAnswer{Seen: &probe.Seen{Renews: renews, Events: []probe.Event{tarpit}}}
		document, err := json.Marshal(a.Document())
		text := fmt.Sprint(a.facts())
		if strings.Contains(string(document), `"denials_renew":true`) != renews ||
			strings.Contains(text, "keep the subject out") != renews || strings.Contains(text, "at once") ||
			!strings.Contains(text, "0 allowed, 1 denied (median 1.2s)") || !strings.Contains(string(document), `"denied_us":1200000`) ||
			err != nil {
			t.Errorf("%s\n%s, %v", document, text, err)
		}
	}
}
