package report

import (
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

// seen is what a browser makes of a page in a window of that width.
type seen struct {
	Page, Width  int
	Title, Paper string
	Asked        int      // what it asked for besides itself
	Problems     []string // what reaches over the edges, and labels that overlap
	Counts       map[string]int
}

// inBrowser shows pages in Chromium, each in two widths, and counts elements by selectors.
func inBrowser(t *testing.T, dark bool, pages [][]byte, selectors []string) (all []seen) {
	t.Helper()
	tier.Full(t, "a browser")
	texts := make([]string, len(pages))
	for i := range pages {
		texts[i] = string(pages[i])
	}
	data, err := json.Marshal(map[string]any{"pages": texts, "selectors": selectors})
	tier.Must(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, "pages.html")
	tier.Must(t, os.WriteFile(path, []byte("<!DOCTYPE html><body><script>const data = "+string(data)+look),
		0o600))
	scheme := "1"
	if dark {
		scheme = "0"
	}
	// A profile of its own: t.TempDir fails on what a browser writes while it ends.
	profile, err := os.MkdirTemp("", "limitctl-chromium")
	tier.Must(t, err)
	defer os.RemoveAll(profile)
	shown, err := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+profile,
		"--blink-settings=preferredColorScheme="+scheme, "--virtual-time-budget=600000", "--dump-dom",
		"file://"+path).Output()
	if err != nil {
		t.Fatalf("the pages are looked at in Chromium; `make setup` installs it: %v", err)
	}
	_, result, found := strings.Cut(string(shown), `<pre id="seen">`)
	result, _, _ = strings.Cut(result, "</pre>")
	if err := json.Unmarshal([]byte(html.UnescapeString(result)), &all); !found || err != nil ||
		len(all) != 2*len(pages) {
		t.Fatalf("of %d pages %d were seen: %v\n%.2000s", len(pages), len(all), err, shown)
	}
	return all
}

const look = `;
(async () => {
	const all = [];
	for (const [page, text] of data.pages.entries()) for (const width of [400, 1400]) {
		const frame = document.createElement("iframe");
		frame.style = "border: 0; height: 900px; width: " + width + "px";
		frame.srcdoc = text;
		const loaded = new Promise(done => frame.onload = done);
		document.body.append(frame);
		await loaded;
		const shown = frame.contentDocument, window = frame.contentWindow, problems = [], counts = {};
		if (shown.documentElement.scrollWidth > width)
			problems.push("the page is " + shown.documentElement.scrollWidth + " wide");
		for (const e of shown.querySelectorAll("body *")) {
			if (e.closest(".scroll") && !e.matches(".scroll") || e.closest("svg") && !e.matches("svg")) continue;
			const box = e.getBoundingClientRect();
			if (box.width > 0 && (box.right > width + 1 || box.left < -1))
				problems.push(e.tagName + "." + e.className + " from " + box.left + " to " + box.right);
		}
		for (const axis of shown.querySelectorAll(".xs, .ys")) {
			const boxes = [...axis.children].map(e => [e.textContent, e.getBoundingClientRect()]);
			for (const [i, [text, a]] of boxes.entries()) for (const [other, b] of boxes.slice(i + 1))
				if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
					problems.push("label " + text + " lies on " + other);
		}
		for (const selector of data.selectors) counts[selector] = shown.querySelectorAll(selector).length;
		all.push({page, width, title: shown.title,
			paper: window.getComputedStyle(shown.body).backgroundColor, problems, counts,
			asked: window.performance.getEntriesByType("resource").length});
		frame.remove();
	}
	const pre = document.createElement("pre");
	pre.id = "seen";
	pre.textContent = JSON.stringify(all);
	document.body.replaceChildren(pre);
})();
</script>`
