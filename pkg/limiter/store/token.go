package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/recordformat"
)

// TokenRecord is what a store remembers of an allowed call with a token; zero for an unknown token.
type TokenRecord struct {
	Op      Op
	Settled bool
	Expires Instant
	Digest  TokenDigest
	Attempt uint64
	Charges []TokenCharge // one for each request
}

// TokenCharge is what a token remembers of one request.
type TokenCharge struct {
	Cost, Granted int64
	Real          int64   // what is charged for it since it was settled
	Turn          Instant // when a leaky bucket lets it go, 0 for other algorithms
}

// TokenDigest is a hash of the keys and limits of a call.
type TokenDigest [recordformat.TokenDigestSize]byte

// TokenDigestOf returns the digest of reqs, which must be normalized, as they were before an override changed them.
func TokenDigestOf(reqs []Request) (digest TokenDigest) {
	var buf []byte
	for i := range reqs {
		r := &reqs[i]
		if r.TokenFor != nil {
			r = r.TokenFor
		}
		buf = r.Limit.appendAsked(buf)
		if r.Shadow {
			buf = append(buf, 1)
		} else {
			buf = append(buf, 0)
		}
		for _, text := range []string{r.Key.Subject, r.Key.Name} {
			buf = binary.BigEndian.AppendUint16(buf, uint16(len(text)))
			buf = append(buf, text...)
		}
	}
	sum := sha256.Sum256(buf)
	copy(digest[:], sum[:])
	return digest
}

// appendAsked appends l as it was asked for: a calendar without its window, which can end before a repetition.
func (l *Limit) appendAsked(buf []byte) []byte {
	if l.Calendar == nil {
		return l.AppendPacked(buf)
	}
	buf = append(binary.BigEndian.AppendUint32(append(buf, byte(l.Kind())), uint32(l.Count)), l.Calendar.Unit...)
	return append(append(append(buf, ','), l.Calendar.Zone...), 0)
}

// TokenName returns the name of token in a store: the token itself, or a hash of a long one.
func TokenName(token string) string {
	const longest = 64
	if len(token) <= longest {
		return "token:" + token
	}
	sum := sha256.Sum256([]byte(token))
	return "token-sha256:" + hex.EncodeToString(sum[:])
}

// IsZero reports whether t is the record of an unknown token.
func (t *TokenRecord) IsZero() bool { return t.Charges == nil }

// tokenOps has the letters in records of the operations that tokens remember.
const tokenOps = "t   c u"

// TokenOp returns the operation that a letter in a [TokenRecord] stands for.
func TokenOp(letter byte) (op Op, known bool) {
	i := strings.IndexByte(tokenOps, letter)
	return Op(max(0, i)), i >= 0 && letter != ' '
}

// AppendRecord appends t as bytes to buf.
func (t *TokenRecord) AppendRecord(buf []byte) []byte {
	settled := byte(0)
	if t.Settled {
		settled = 1
	}
	buf = append(buf, recordformat.TokenMagic...)
	buf = append(buf, recordformat.TokenVersion, tokenOps[t.Op], settled)
	buf = appendUint(buf, int64(t.Expires), 7)
	buf = append(buf, t.Digest[:]...)
	buf = binary.BigEndian.AppendUint64(buf, t.Attempt)
	for _, charge := range t.Charges {
		buf = appendUint(appendUint(appendUint(buf, charge.Cost, 4), charge.Granted, 4), charge.Real, 4)
		buf = appendUint(buf, int64(charge.Turn), 7)
	}
	return buf
}

// DecodeTokenRecord reads back what [TokenRecord.AppendRecord] writes. The error is meant for [ForeignError].Holds.
func DecodeTokenRecord(record []byte) (t TokenRecord, err error) {
	r := recordReader{rest: record}
	if string(r.bytes(2)) != recordformat.TokenMagic || len(record) < recordformat.TokenHeaderSize {
		return t, fmt.Errorf("%d bytes that are not the record of a token", len(record))
	}
	if version := r.uint(1); version != recordformat.TokenVersion {
		return t, fmt.Errorf("the record of a token in version %d, which this limitctl does not know", version)
	}
	op, known := TokenOp(byte(r.uint(1)))
	settled := r.uint(1)
	t = TokenRecord{Op: op, Settled: settled == 1, Expires: Instant(r.uint(7))}
	copy(t.Digest[:], r.bytes(len(t.Digest)))
	t.Attempt = uint64(r.uint(8))
	for len(r.rest) > 0 && !r.short {
		t.Charges = append(t.Charges, TokenCharge{Cost: r.uint(4), Granted: r.uint(4), Real: r.uint(4),
			Turn: Instant(r.uint(7))})
	}
	if !known || settled > 1 || r.short || len(t.Charges) == 0 {
		return TokenRecord{}, errors.New("a damaged record of a token")
	}
	return t, nil
}

// TokenMismatch returns the [ErrInvalid] for a token that belongs to another call: of another operation, if op is not
// nil, else at a cost other than asked, else of another key or limit. With [Settle] it was settled at another cost.
func TokenMismatch(token string, op *Op, cost, asked int64) error {
	was := "another key or limit"
	if op != nil && *op == Settle {
		return Invalidf("token %q was settled at a cost of %d before, not %d", token, cost, asked)
	} else if op != nil {
		was = "another operation, a " + op.String()
	} else if cost != asked {
		was = fmt.Sprintf("a cost of %d, not %d", cost, asked)
	}
	return Invalidf("token %q was used for %s; use a new token for each call", token, was)
}

// check returns an [ErrInvalid] if t belongs to another call than op on reqs.
func (t *TokenRecord) check(op Op, reqs []Request) error {
	token := reqs[0].Token
	if t.Digest != TokenDigestOf(reqs) || len(t.Charges) != len(reqs) {
		return TokenMismatch(token, nil, 0, 0)
	}
	if wanted := max(op, Take); op != Settle && op != Refund && t.Op != wanted && (op != Peek || t.Op != Take) {
		return TokenMismatch(token, &t.Op, 0, 0)
	}
	for i := range reqs {
		charge, cost := &t.Charges[i], reqs[i].Cost
		switch {
		case op != Settle && charge.Cost != cost:
			return TokenMismatch(token, nil, charge.Cost, cost)
		case op == Settle && t.Settled && charge.settles(&reqs[i]) && charge.Real != cost:
			return TokenMismatch(token, &op, charge.Real, cost)
		}
	}
	return nil
}

// settles reports whether a settlement charges req: what a shadow limit would have denied stays uncharged.
func (c *TokenCharge) settles(req *Request) bool { return !req.Shadow || c.Granted > 0 }

// charged is the number of units that are charged for c now.
func (t *TokenRecord) charged(c *TokenCharge) int64 {
	if t.Settled {
		return c.Real
	}
	return c.Granted
}
