package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/itchyny/gojq"
)

// Filter makes a text of the JSON document of an answer. Its value is that of [JSON] read back, with numbers as
// [json.Number].
type Filter func(value any) ([]byte, error)

// JQ returns the filter of a jq program: a line for each result, a text without quotes. The error says what is wrong
// with the program.
func JQ(program string) (Filter, error) {
	query, err := gojq.Parse(program)
	if err != nil && err.Error() == "unexpected EOF" { // gojq has no value for it
		return nil, fmt.Errorf("the filter %q ends too early; a bracket, a quote or a value is missing", program)
	}
	if err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, err
	}
	return func(value any) (text []byte, err error) {
		for results := code.Run(value); ; {
			result, more := results.Next()
			if !more {
				return text, nil
			}
			switch result := result.(type) {
			case error:
				if halt := new(gojq.HaltError); errors.As(result, &halt) && halt.Value() == nil {
					return text, nil
				}
				return text, fmt.Errorf("--jq: %w", result)
			case string:
				text = append(text, result...)
			default:
				line, err := gojq.Marshal(result)
				if err != nil {
					return text, err
				}
				text = append(text, escapeJSON(line)...)
			}
			text = append(text, '\n')
		}
	}, nil
}

// filtered prints what the filter makes of a document.
func (p *Printer) filtered(document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	made, err := p.Filter(value)
	if err != nil {
		return err
	}
	_, err = p.data().Write(made)
	return err
}
