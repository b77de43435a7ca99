package operation

import "testing"

func TestConsentCovers(t *testing.T) {
	free, dev, prod := Access{}, Access{Context: "dev"}, Access{Context: "prod", Protected: true}
	for _, test := range []struct {
		consent Consent
		access  Access
		want    bool
	}{
		{Consent{}, free, false},
		{Consent{Yes: true}, free, true},
		{Consent{Yes: true}, dev, true},
		{Consent{Yes: true}, prod, false}, // it wants its name
		{Consent{Context: "prod"}, prod, true},
		{Consent{Context: "dev"}, dev, true},
		{Consent{Yes: true, Context: "dev"}, prod, false},
		{Consent{Context: "prod"}, free, false},
	} {
		if got := test.consent.Covers(test.access); got != test.want {
			t.Errorf("%+v covers %+v: %v", test.consent, test.access, got)
		}
	}
}

func TestAClearYes(t *testing.T) {
	for answer, want := range map[string]bool{"y": true, "Yes\n": true, " YES\r\n": true, "": false,
		"n": false, "yess": false, "prod": false} {
		if got := (Question{Text: "Delete"}).IsYes(answer); got != want {
			t.Errorf("%q is a yes: %v", answer, got)
		}
	}
	for answer, want := range map[string]bool{"prod": true, " prod \r\n": true, "PROD": false, "y": false, "": false} {
		if got := (Question{Text: "Delete", Context: "prod"}).IsYes(answer); got != want {
			t.Errorf("%q is the name of prod: %v", answer, got)
		}
	}
}
