package cmd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/doctor"
	"github.com/limitctl/limitctl/internal/redistest"
)

// On a Sentinel's port the URL of what it watches is given; by that URL the Sentinels are
// examined.
func TestDoctorOfSentinels(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	w := newWorld(t)
	stdout, _ := w.run(t, exitNo, "doctor", "--store", "redis://"+sentinel.Sentinels[0].Addr, "-o", "json")
	var found struct {
		Findings []doctor.Finding
	}
	if err := json.Unmarshal([]byte(stdout), &found); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(found.Findings, func(f doctor.Finding) bool { return f.Check == "sentinel" })
	if at < 0 || found.Findings[at].Status != doctor.Fail {
		t.Fatalf("a Sentinel's port: %+v", found.Findings)
	}
	url, is := strings.CutPrefix(found.Findings[at].Advice, "give --store ")
	for _, process := range sentinel.Sentinels {
		is = is && strings.Contains(url, process.Addr)
	}
	if !is || !strings.HasPrefix(url, "redis+sentinel://") || !strings.HasSuffix(url, "/"+redistest.MasterName) {
		t.Fatalf("it advises %q", found.Findings[at].Advice)
	}
	stdout, _ = w.run(t, exitYes, "doctor", "--store", url)
	if !strings.Contains(stdout, "3 Sentinels watch the master, and 2 have to agree") {
		t.Errorf("by %s:\n%s", url, stdout)
	}
	for _, process := range sentinel.Sentinels[1:] {
		process.Kill()
	}
	stdout, _ = w.run(t, exitYes, "doctor", "--store", url) // the third has not noticed yet
	if !strings.Contains(stdout, "! sentinel") || !strings.Contains(stdout, "no answer from ") ||
		strings.Contains(stdout, "no Sentinel answers") {
		t.Errorf("with two of three killed:\n%s", stdout)
	}
	_, stderr := w.run(t, exitRefused, "check", "u", "--limit", "1/1h", "--store",
		"redis://"+sentinel.Sentinels[0].Addr)
	if !strings.Contains(stderr, "if this is a Sentinel's port, limitctl doctor names the URL to give") {
		t.Errorf("a check at a Sentinel's port says %q", stderr)
	}
}

// A server of another protocol has no password to check.
func TestDoctorOfAnotherProgramsPort(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	stdout, _ := newWorld(t).run(t, exitRefused, "doctor", "--store", "redis://"+other.Listener.Addr().String())
	if !strings.Contains(stdout, "→ another program listens there,") || strings.Contains(stdout, "password") {
		t.Errorf("%s", stdout)
	}
}
