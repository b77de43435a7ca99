package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/limitctl/limitctl/internal/lines"
	"github.com/limitctl/limitctl/internal/readfile"
)

// maxHeader is longer than any first line.
const maxHeader = 1 << 20

var errNoHeader = errors.New("its first line is not that of a backup")

// readLines reads the header into c and calls do with each line after it. It leaves out an incomplete last line,
// and sets c.Torn.
func (c *Contents) readLines(in io.Reader, do func(line *lines.Line) error) error {
	buffered, err := plain(in)
	if err != nil {
		return err
	}
	if err := c.readHeader(buffered); err != nil {
		return err
	}
	reader := lines.NewReader(buffered, maxLine)
	for {
		line, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF), line.Torn: // the former comes from gzip
			c.Torn = true
			return nil
		case err != nil:
			return err
		}
		line.Number++ // the header is the first
		if err := do(&line); err != nil {
			return err
		}
	}
}

// plain returns the uncompressed content of a file.
func plain(in io.Reader) (*bufio.Reader, error) {
	buffered := bufio.NewReaderSize(in, maxHeader)
	if first, _ := buffered.Peek(2); !bytes.Equal(first, []byte{0x1f, 0x8b}) {
		return buffered, nil
	}
	unzipped, err := readfile.Gunzip(buffered)
	if err != nil {
		return nil, fmt.Errorf("it begins as if compressed with gzip: %w", err)
	}
	return bufio.NewReaderSize(unzipped, maxHeader), nil
}

// headerFrom reads only the header of a backup.
func headerFrom(in io.Reader) (Header, error) {
	buffered, err := plain(in)
	if err != nil {
		return Header{}, err
	}
	var c Contents
	err = c.readHeader(buffered)
	return c.Header, err
}

func (c *Contents) readHeader(in *bufio.Reader) error {
	text, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(text) == 0:
		return errors.New("it is empty, so it is not a backup")
	case errors.Is(err, bufio.ErrBufferFull): // the first line can be gigabytes long
		return errNoHeader
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	if json.Unmarshal(text, &c.Header) != nil || c.Version == 0 {
		return errNoHeader
	}
	if c.Version != version {
		return fmt.Errorf("it is a backup of version %d, and this limitctl knows version %d", c.Version, version)
	}
	return nil
}

// Survey is what can be known about a backup without parsing its records.
type Survey struct {
	Header
	Keys int64 // the number of lines with keys, without amendments
	Torn bool  // the last line is incomplete
}

// amending is the mark of a line that amends another. No text in a line can contain it, since its quotation marks
// would have a backslash.
var amending = []byte(`,"amends":true`)

// look surveys a backup. It reads all of it, in a fraction of the time of [Check].
func look(in io.Reader) (*Survey, error) {
	var c Contents
	s := &Survey{}
	err := c.readLines(in, func(line *lines.Line) error {
		if !bytes.Contains(line.Text, amending) {
			s.Keys++
		}
		return nil
	})
	s.Header, s.Torn = c.Header, c.Torn
	return s, err
}
