package show

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/cmd/internal/report"
	"github.com/limitctl/limitctl/cmd/internal/report/sample"
	"github.com/limitctl/limitctl/internal/browsertest"
)

func pageOf(t *testing.T, d *report.Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := (Answer{d}).HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Whatever is in a document, its page names no other place.
func TestPagesReferToNothing(t *testing.T) {
	tags, values := regexp.MustCompile(`<[a-zA-Z][^<>]*`), regexp.MustCompile(`"[^"]*"`)
	references := regexp.MustCompile(`(?i)^<(script|link|img|iframe|object|embed|image|use|base|form)\b|` +
		`\b(src|srcset|href|action|on[a-z]+)\s*=`)
	for name, d := range sample.Fixtures() {
		page := pageOf(t, d)
		if !utf8.Valid(page) {
			t.Errorf("%s: the page is not UTF-8", name)
		}
		for _, tag := range tags.FindAll(page, -1) {
			if references.Match(values.ReplaceAll(tag, nil)) {
				t.Errorf("%s: %s", name, tag)
			}
		}
		if style, _, _ := bytes.Cut(page, []byte("</style>")); bytes.Contains(style, []byte("url(")) ||
			bytes.Contains(style, []byte("@import")) {
			t.Errorf("%s: the style refers to something", name)
		}
	}
}

// The pages are looked at in a browser, as they are by people.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	b := browsertest.New(t)
	b.Show(
		[]byte(`<!DOCTYPE html><body><p style="width:2000px">wide</p>`+
			`<div class="xs"><span>0</span><span style="margin-left:-2px">1</span></div>`),
		400, "light",
	)
	var problems []string
	if b.Evaluate(browsertest.Overflowing, &problems); len(problems) != 3 { // the page, the paragraph, the label
		t.Fatalf("of a page that does not fit it is said: %q", problems)
	}
	for _, test := range []struct {
		name string
		want map[string]int // elements by selector
	}{
		{"one", map[string]int{
			".verdict.bad": 1, ".curve path.line": 1, ".overtime .plot": 1, "path.allowed": 1, "path.denied": 1, "path.errors": 0,
			".finding.good": 2, ".finding.bad": 1, "section td": 1,
		}},
		{"five", map[string]int{".curve path.line": 5, ".curve .legend li": 5, ".overtime .plot": 5, ".finding": 11}},
		{"racing", map[string]int{".finding.bad": 5, "path.errors": 1, "path.dropped": 1, "section td": 1}},
		{"simulation", map[string]int{".curve": 0, ".overtime .plot": 2, ".finding": 2, "section td": 1}},
		{"empty", map[string]int{".plot": 0, ".verdict.near": 1}},
		{"hostile", map[string]int{"script": 0, "img": 0, "b": 0, "section td": 1}},
		{"long", map[string]int{".overtime .plot": 2, ".curve": 0}},
		{"none", map[string]int{"section": 0}},
	} {
		b.Show(pageOf(t, sample.Fixtures()[test.name]), 400, "light")
		for _, width := range []int{400, 1400} {
			for _, scheme := range []string{"light", "dark"} {
				b.Turn(width, scheme)
				where := fmt.Sprintf("%s-%d-%s", test.name, width, scheme)
				var problems []string
				b.Evaluate(browsertest.Overflowing, &problems)
				if len(problems) > 0 {
					t.Errorf("%s: %q", where, problems[:min(len(problems), 8)])
				}
				for selector, want := range test.want {
					got := 0
					b.Evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &got)
					if selector == "section td" { // any number, but some
						got = min(got, want)
					}
					if got != want {
						t.Errorf("%s: %d of %s, want %d", where, got, selector, want)
					}
				}
				if len(b.Asked) != 1 {
					t.Errorf("%s: it asks for %q", where, b.Asked)
				}
				title := ""
				b.Evaluate("document.title", &title)
				if !strings.HasPrefix(title, "limitctl: ") {
					t.Errorf("%s: the title is %q", where, title)
				}
				picture := b.Screenshot()
				browsertest.Keep(t, where+".png", picture)
				lookAt(t, where, picture, width, scheme)
			}
		}
		b.Turn(760, "print")
		b.Evaluate(browsertest.Overflowing, &problems)
		if len(problems) > 0 {
			t.Errorf("%s printed: %q", test.name, problems[:min(len(problems), 8)])
		}
		picture := b.Screenshot()
		browsertest.Keep(t, test.name+"-print.png", picture)
		lookAt(t, test.name+" printed", picture, 760, "light")
	}
}

// lookAt wants a picture of a page: the paper of the scheme, and ink on it.
func lookAt(t *testing.T, where string, data []byte, width int, scheme string) {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	if got := picture.Bounds().Dx(); got != width {
		t.Errorf("%s: the picture is %d wide", where, got)
	}
	pixels, is := picture.(*image.RGBA)
	if !is {
		t.Fatalf("%s: the picture is %T", where, picture)
	}
	seen := map[color.RGBA]int{}
	last, run := pixels.RGBAAt(0, 0), 0 // most are as the one before
	for p := range slices.Chunk(pixels.Pix, 4) {
		if here := (color.RGBA{p[0], p[1], p[2], p[3]}); here != last {
			seen[last] += run
			last, run = here, 0
		}
		run++
	}
	seen[last] += run
	paper := map[string]color.RGBA{"light": color.RGBA{255, 255, 255, 255}, "dark": color.RGBA{0x14, 0x18, 0x1d, 255}}[scheme]
	all := picture.Bounds().Dy() * width
	if share := float64(seen[paper]) / float64(all); share < 0.2 || share > 0.999 {
		t.Errorf("%s: %.1f%% of it is paper", where, 100*share)
	}
	if len(seen) < 10 {
		t.Errorf("%s: there are %d colours in it", where, len(seen))
	}
}

// The page says what became of the requests of each run, and what an endpoint answered.
func TestRequestsOnThePage(t *testing.T) {
	d := judged(func(r *report.Run) {
		r.Requests, r.Allowed, r.Denied, r.Errors, r.TimedOut, r.Dropped = 9900, 9000, 850, 50, 20, 100
		r.Statuses, r.Endpoint = map[string]int64{"200": 9000, "503": 30, "429": 850}, new(report.Endpoint)
		r.Store = "http://127.0.0.1/"
	})
	p := newPage(d)
	var rows []string
	for _, row := range p.Tables[1].Rows {
		rows = append(rows, row[0].Text+": "+row[1].Text)
	}
	want := []string{
		"Requests: 10,000", "Allowed: 9,000 (90%)", "Denied: 850 (8.5%)", "Failed: 50 (0.5%)", "Failed: timed out: 20 (0.2%)",
		"Dropped before they were sent: 100 (1.0%)", "Answers 200 OK: 9,000", "Answers 429 Too Many Requests: 850",
		"Answers 503 Service Unavailable: 30",
	}
	if !slices.Equal(rows, want) {
		t.Errorf("%q", rows)
	}
	if i := slices.IndexFunc(p.Facts, func(f fact) bool { return f.Name == "Endpoint" }); i < 0 || p.Facts[i].Value != d.Runs[0].Store {
		t.Errorf("%+v", p.Facts)
	}
}
