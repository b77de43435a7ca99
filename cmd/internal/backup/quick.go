package backup

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// A reset reads back what it has written of each key, and encoding/json takes more time for that than everything
// else together. So this file reads lines in exactly the usual form, and encoding/json all others, such as edited
// ones.

// quickReader reads a line in the usual form, and fails on any other.
type quickReader struct {
	rest   []byte
	failed bool
}

// quickLine reads a record's line in the usual form. ok is false for any other.
func quickLine(text []byte) (l *line, ok bool) {
	q := &quickReader{rest: bytes.TrimSuffix(text, []byte("\n"))}
	l = &line{}
	q.expect(`{"key":`)
	l.Subject = q.text()
	q.expect(`,"name":`)
	l.Name = q.text()
	q.expect(`,"value":`)
	if !q.skip(`null`) {
		l.Value = q.bytes()
	}
	if q.skip(`,"parts":[`) {
		for more := true; more && !q.failed; more = q.skip(`,`) {
			l.Parts = append(l.Parts, q.part())
		}
		q.expect(`]`)
	}
	if q.skip(`,"limit":`) {
		l.Limit = q.text()
	}
	if q.skip(`,"used":`) {
		used := q.number()
		l.Used = &used
	}
	q.expect(`,"expires_ms":`)
	l.ExpiresMS = q.number()
	q.expect(`}`)
	return l, !q.failed && len(q.rest) == 0
}

func (q *quickReader) part() (p part) {
	q.expect(`{"store_key":`)
	p.StoreKey = q.bytes()
	if q.skip(`,"field":`) {
		p.Field = q.bytes()
	}
	q.expect(`,"type":`)
	p.Type = q.text()
	q.expect(`,"dump":`)
	p.Dump = q.bytes()
	q.expect(`,"expires_ms":`)
	p.ExpiresMS = q.number()
	q.expect(`}`)
	return p
}

// skip skips the text what, if it comes next.
func (q *quickReader) skip(what string) bool {
	if len(q.rest) < len(what) || string(q.rest[:len(what)]) != what {
		return false
	}
	q.rest = q.rest[len(what):]
	return true
}

func (q *quickReader) expect(what string) { q.failed = !q.skip(what) || q.failed }

// quoted returns the text in quotation marks, which must have no backslash.
func (q *quickReader) quoted() []byte {
	end := -1
	if q.skip(`"`) {
		end = bytes.IndexByte(q.rest, '"')
	}
	if end < 0 {
		q.failed = true
		return nil
	}
	inside := q.rest[:end]
	q.rest = q.rest[end+1:]
	return inside
}

func (q *quickReader) text() string {
	inside := q.quoted()
	for _, c := range inside {
		if c == '\\' || c < ' ' {
			q.failed = true
			return ""
		}
	}
	q.failed = q.failed || !utf8.Valid(inside)
	return string(inside)
}

func (q *quickReader) bytes() []byte {
	decoded, err := base64.StdEncoding.Strict().AppendDecode(make([]byte, 0), q.quoted())
	q.failed = q.failed || err != nil
	return decoded
}

// number reads a whole number in the usual form, with not too many digits.
func (q *quickReader) number() int64 {
	n := 0
	for n < len(q.rest) && n < 18 && (q.rest[n] == '-' || q.rest[n] >= '0' && q.rest[n] <= '9') {
		n++
	}
	text := string(q.rest[:n])
	value, err := strconv.ParseInt(text, 10, 64)
	q.rest = q.rest[n:]
	q.failed = q.failed || err != nil || strconv.FormatInt(value, 10) != text
	return value
}
