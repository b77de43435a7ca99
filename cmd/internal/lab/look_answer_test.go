package lab

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/probe"
)

// Denials that keep the subject out are in the document as well, and nothing passed where nothing was decided.
func TestALookSaysTheSameInAllForms(t *testing.T) {
	for _, renews := range []bool{true, false} {
		a := &lookAnswer{Seen: &probe.Seen{Renews: renews}}
		document, err := json.Marshal(a.Document())
		text := fmt.Sprint(a.facts())
		if strings.Contains(string(document), `"denials_renew":true`) != renews ||
			strings.Contains(text, "keep the subject out") != renews || strings.Contains(text, "at once") ||
			err != nil {
			t.Errorf("%s\n%s, %v", document, text, err)
		}
	}
}
