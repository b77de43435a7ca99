// Package recordformat describes the bytes of a key's state and of a token, the values that stores keep. Package
// store writes and reads them, and so do the scripts of lua/, which get these numbers from here.
//
// All numbers are big-endian and unsigned. An instant or a period has 7 bytes, which hold microseconds until the
// year 4253.
//
// # Record
//
//	offset size
//	     0    2  "RL"
//	     2    1  format version: 1, of a sliding counter in slices 2, of a bucket whose
//	             level is above its burst 3, of a window of a calendar 4
//	     3    1  kind: 1 to 5 in the order of the algorithms, 6 a sliding counter in slices,
//	             7 a fixed window of a calendar
//	     4    4  count                     \
//	     8    4  burst, slices, or window   } with the kind, the limit last applied
//	    12    7  period in µs              /
//	    19    7  instant of the last charge
//	    26       state:
//	             token-bucket, leaky-bucket: 4 units, 7 fraction
//	             fixed-window:               4 units, also of a calendar
//	             sliding-counter:            4 units, 4 previous units
//	             sliding-log:                4 head, 4 length, 3 base sum, then the
//	                                         ring of entries: 7 instant, 3 sum
//	             in slices:                  2 head, 2 length, 4 base sum, then the
//	                                         ring of entries: 2 slice, 4 sum
//
// A window of a calendar has its length as the period, and in place of the burst 25 bits of its begin, in quarters of
// an hour since the epoch, and 7 bits of what local time is ahead of UTC at its end, in quarters of an hour above −64.
// Neither the zone nor the unit is recorded: the bounds are all that counts.
//
// A program that is older than a kind, or than version 3, refuses its records because of the version. Slices are
// numbered from the epoch. A record has the last two bytes of a number.
//
// # Token
//
//	offset size
//	     0    2  "RT"
//	     2    1  format version, 1
//	     3    1  the operation: 't' take, 'c' charge, 'u' take what fits
//	     4    1  1 once it is settled, else 0
//	     5    7  until when it is remembered, in µs since the epoch
//	    12   16  digest of the keys and limits
//	    28    8  attempt: who answers for it in a call over several slots
//	    36       for each request: 4 cost, 4 granted, 4 real cost, 7 turn in µs
package recordformat

// Of a record.
const (
	Magic   = "RL"
	Version = 1
	// OverfullVersion is the version for a bucket whose level is above its burst.
	OverfullVersion = 3
	// PackedLimitSize is the size of a limit: kind, count, burst or slices, and period.
	PackedLimitSize = 1 + 4 + 4 + 7
	HeaderSize      = len(Magic) + 1 + PackedLimitSize + 7
	// LogEntrySize is the size of an entry of a sliding log: its instant and its sum.
	LogEntrySize = 7 + 3
)

// Of a token.
const (
	TokenMagic      = "RT"
	TokenVersion    = 1
	TokenDigestSize = 16
	TokenHeaderSize = len(TokenMagic) + 3 + 7 + TokenDigestSize + 8
	TokenChargeSize = 4 + 4 + 4 + 7
)
