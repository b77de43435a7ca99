package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Bounds of a saved report, beyond all that a command saves, so that any file
// is read in bounded memory. A month's load test has 2 MB, an hour's 50 KB.
const (
	// MaxSize is how many bytes a report has.
	MaxSize    = 16 << 20
	maxRuns    = 10_000
	maxRunSize = 4 << 20
	// maxPromises is how many thresholds, and how many suggestions, there are.
	maxPromises = 100_000
	// maxRunValues is how many values a run has, and maxValues all runs together.
	maxRunValues = 200_000
	maxValues    = 2_000_000
	// maxHistograms is how many bytes of memory all histograms together take.
	maxHistograms = 256 << 20
)

// errHistograms: the histograms of a document take more than [maxHistograms].
var errHistograms = fmt.Errorf("its histograms take more than %d MB of memory", maxHistograms>>20)

// Save returns the document as a file, histograms included, for [Read].
func (d *Document) Save() ([]byte, error) {
	d.Judge()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // thresholds have < and > in them
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	histograms := 0
	for i := range d.Runs {
		histograms += d.Runs[i].Histograms.size()
	}
	if err == nil && (b.Len() > MaxSize || len(d.Runs) > maxRuns || histograms > maxHistograms) {
		err = fmt.Errorf("%d runs of %d MB could not be read again; try fewer limits at once", len(d.Runs), b.Len()>>20)
	}
	return b.Bytes(), err
}

// Read reads a document that was saved or printed as JSON; name is what messages
// call it. What is wrong with it is a [store.ErrInvalid].
func Read(name string, data []byte) (*Document, error) {
	var head struct {
		SchemaVersion *int            `json:"schema_version"`
		Kind          Kind            `json:"kind"`
		Origin        *Origin         `json:"origin"`
		Interrupted   bool            `json:"interrupted"`
		MaxErrors     *float64        `json:"max_errors"`
		Runs          json.RawMessage `json:"runs"`
		Thresholds    json.RawMessage `json:"thresholds"`
		Suggestions   json.RawMessage `json:"suggestions"`
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, store.Invalidf("%s is empty; give a report that loadtest or simulate saved", name)
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, notJSON(name, data, err)
	}
	switch {
	case len(data) > MaxSize:
		return nil, notAReport(name, errors.New("it holds more than any report"))
	case head.SchemaVersion == nil, !isList(head.Runs), head.Kind != LoadTest && head.Kind != Simulation:
		return nil, store.Invalidf("%s is JSON, but not a report; give one that loadtest or simulate saved", name)
	case *head.SchemaVersion != output.SchemaVersion:
		return nil, store.Invalidf("%s has schema_version %d, and this limitctl reads %d; use the limitctl that saved it",
			name, *head.SchemaVersion, output.SchemaVersion)
	}
	d := &Document{
		SchemaVersion: *head.SchemaVersion, Kind: head.Kind, Origin: head.Origin, Interrupted: head.Interrupted,
		MaxErrors: head.MaxErrors,
	}
	if share := d.mayFail(); share < 0 || share > 1 {
		return nil, notAReport(name, fmt.Errorf("max_errors %v is not a share of requests", share))
	}
	var err error
	histograms := 0
	check := func(r *Run) error {
		if histograms += r.Histograms.size(); histograms > maxHistograms {
			return errHistograms
		}
		return r.check()
	}
	if d.Runs, err = elements(head.Runs, maxRuns, check); err == nil {
		d.Thresholds, err = elements[Threshold](head.Thresholds, maxPromises, nil)
	}
	if err == nil {
		d.Suggestions, err = elements[Suggestion](head.Suggestions, maxPromises, nil)
	}
	if err != nil {
		return nil, notAReport(name, err)
	}
	for _, t := range d.Thresholds {
		if t.Run < 0 || t.Run >= len(d.Runs) {
			return nil, store.Invalidf("%s is not a report: threshold %q is about run %d, and there are %d",
				name, t.Expression, t.Run, len(d.Runs))
		}
	}
	if d.Thresholds == nil {
		d.Thresholds = []Threshold{}
	}
	return d, nil
}

// notJSON says what is wrong with the text of a report.
func notJSON(name string, data []byte, err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return store.Invalidf("%s ends in the middle of its JSON; save the report again", name)
	case errors.As(err, &syntax) && strings.HasSuffix(syntax.Error(), "after top-level value"):
		return store.Invalidf("%s goes on after its report; give a file with one report in it", name)
	case errors.As(err, &syntax) && !strings.ContainsRune("{[", rune(bytes.TrimSpace(data)[0])):
		return store.Invalidf("%s is not JSON; give a report that loadtest or simulate saved", name)
	}
	return notAReport(name, err)
}

func notAReport(name string, err error) error {
	// What is wrong can be a number of a million digits.
	return store.Invalidf("%s is not a report: %.200s; give one that loadtest or simulate saved", name, err.Error())
}

func isList(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '[' }

// elements reads a list one by one, so that what has too many of anything is known
// before there is memory taken for them: two bytes of JSON can stand for a Run.
func elements[T any](raw json.RawMessage, most int, check func(*T) error) (list []T, err error) {
	switch {
	case raw == nil || string(raw) == "null":
		return nil, nil
	case !isList(raw):
		return nil, errors.New("a list is missing that every report has")
	}
	list = []T{}
	values := 0
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	for decoder.More() {
		var text json.RawMessage
		if err := decoder.Decode(&text); err != nil {
			return nil, err
		}
		own := bytes.Count(text, []byte{','})
		values += own + 1
		if len(list) == most || len(text) > maxRunSize || own > maxRunValues || values > maxValues {
			return nil, errors.New("it holds more than any report")
		}
		var element T
		if err := json.Unmarshal(text, &element); err != nil {
			return nil, err
		}
		if check != nil {
			if err := check(&element); err != nil {
				return nil, fmt.Errorf("run %d is damaged: %w", len(list)+1, err)
			}
		}
		list = append(list, element)
	}
	return list, nil
}
