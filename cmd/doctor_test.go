package cmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
)

// On a Sentinel's port the kind of URL is given; by such a URL the Sentinels are examined.
func TestDoctorOfSentinels(t *testing.T) {
	sentinel := redistest.StartSentinel(t)
	w := newWorld(t)
	port, url := "redis://"+sentinel.Sentinels[0].Addr, "redis+sentinel://"
	for _, process := range sentinel.Sentinels {
		url += process.Addr + ","
	}
	url = strings.TrimSuffix(url, ",") + "/" + redistest.MasterName
	stdout, _ := w.run(t, exitNo, "doctor", "--store", port)
	if !strings.Contains(stdout, "this is a Sentinel") || !strings.Contains(stdout, "give --store redis+sentinel://") {
		t.Errorf("a Sentinel's port: %s", stdout)
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
	_, stderr := w.run(t, exitRefused, "check", "u", "--limit", "1/1h", "--store", port)
	if !strings.Contains(stderr, "if this is a Sentinel's port, give redis+sentinel://HOST:PORT/MASTER") {
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
