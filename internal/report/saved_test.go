package report

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

var updated = flag.Bool("update", false, "rewrite the golden files")

// What was saved is read, and saved again as it was.
func TestSavedReports(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	more, err2 := filepath.Glob("testdata/fixtures/*.json")
	if files = append(files, more...); len(files) < 8 || err != nil || err2 != nil {
		t.Fatal(files, err, err2)
	}
	for _, golden := range files {
		want, err := os.ReadFile(golden)
		tier.Must(t, err)
		d, err := Read(golden, want)
		tier.Must(t, err)
		data, err := d.Save()
		tier.Must(t, err)
		if *updated {
			tier.Must(t, os.WriteFile(golden, data, 0o644))
		} else if !bytes.Equal(data, want) {
			t.Errorf("%s is not what is saved now; -update writes it", golden)
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	good, err := oneRun().Save()
	tier.Must(t, err)
	type row struct{ data, want string }
	rows := []row{
		{"", "x.json is not a report: "},
		{string(good[:len(good)/2]),
			"x.json is not a report: unexpected end of JSON input; give one that loadtest or simulate saved"},
		{"hello", "x.json is not a report: invalid character"},
		{"[]", "x.json is not a report: "},
		{"{}", "x.json is not a report: it has no schema_version, kind or runs"},
		{`{"schema_version":1,"keys":[]}`, "x.json is not a report: it has no "},
		{`{"schema_version":2,"kind":"loadtest","runs":[]}`,
			"x.json is not a report: it has schema_version 2, and this limitctl reads 1"},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"requests":"many"}]}`, "x.json is not a report: "},
		{`{"schema_version":1,"kind":"loadtest","runs":[],"thresholds":[{"run":1}]}`,
			"x.json is not a report: threshold"},
		{`{"schema_version":1,"kind":"loadtest","runs":[{},{"requests":-1}]}`,
			"x.json is not a report: run 2 is damaged: -1 is out of range"},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"requests":1,"allowed":2}]}`,
			"x.json is not a report: run 1 is damaged: 1 requests had 2 answers"},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"keys":1,"keys_denied":2}]}`,
			"x.json is not a report: run 1 is damaged: 0 requests had 0 answers, and of 1 keys 2 were denied"},
		{`{"schema_version":1,"kind":"loadtest","runs":[{"interval_ms":1,"timeline":[{"offset_ms":5},{"offset_ms":5}]}]}`,
			"x.json is not a report: run 1 is damaged: its timeline"},
		{string(good) + "{}", "x.json is not a report: invalid character '{' after top-level value"},
	}
	for _, fields := range []string{`"requests":1e308`, `"rate":NaN`, `"rate":-1`, `"requests":9223372036854775808`,
		`"latency_us":{"p50":-1}`, `"audit":{"worst_window_ratio":1e300}`,
		`"workers":-1`, `"limits":[{"denied":-1}]`, `"keys":-1`,
		`"timeline":[{"offset_ms":1}],"interval_ms":0`, `"started_at":"yesterday"`} {
		rows = append(rows, row{`{"schema_version":1,"kind":"loadtest","runs":[{` + fields + `}]}`,
			"x.json is not a report: "})
	}
	for _, test := range rows {
		d, err := Read("x.json", []byte(test.data))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %s…", test.data, err, test.want)
		}
		if d != nil {
			t.Errorf("%.40q: there is a document beside the error", test.data)
		}
	}
}
