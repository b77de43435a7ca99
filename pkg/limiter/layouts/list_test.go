package layouts

import (
	"strings"
	"testing"
)

// Who types nearly the name of a layout, or what everybody calls its limiter, is told the name.
func TestNamedSuggests(t *testing.T) {
	for name, want := range map[string]string{
		"spring":     "did you mean spring-cloud-gateway?",
		"Express":    "did you mean rate-limit-redis?",
		"flask":      "did you mean limits?",
		"django":     "did you mean django-ratelimit or drf?",
		"redis-rate": "did you mean redis_rate?",
		"traffic":    "did you mean traefik?",
		"xyz":        "it is auto or one of apisix, ", // as near to tyk as to anything
		"go":         "it is auto or one of apisix, ",
		"limit":      "did you mean limits?",
	} {
		if _, err := Named(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
