package backup

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// layoutRecord is a record of a layout; each of its parts is a string.
func layoutRecord(subject, name string, storeKeys ...string) admin.Record {
	r := admin.Record{Key: store.Key{Subject: subject, Name: name}}
	for _, storeKey := range storeKeys {
		r.Members = append(r.Members,
			admin.Member{StoreKey: storeKey, Type: "string", Dump: []byte("dump of " + storeKey),
				Expires: time.UnixMilli(1_900_000_000_000)})
	}
	return r
}

// layoutBackup is a backup of other limiters' keys. finish, if set, adds to it.
func layoutBackup(t *testing.T, selection string, finish func(*Writer) error, records ...admin.Record) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Store: "s", Prefix: "rl", Layout: "auto", Selection: selection})
	if err == nil {
		err = w.Write(false, records...)
	}
	if err == nil && finish != nil {
		err = finish(w)
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// recordsIn returns the records that a backup brings back, and its damage.
func recordsIn(t *testing.T, file []byte) (c *Contents, all Batch) {
	t.Helper()
	c, err := Check(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Each(bytes.NewReader(file), 2, func(b Batch) error {
		all.Records = append(all.Records, b.Records...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, all
}

// Records of other limiters come back unchanged: any bytes, expiries and families.
func TestLayoutRoundTrip(t *testing.T) {
	bytesOnly := layoutRecord("\xff{\n", "redis_rate", "rate:\xff{\n")
	family := layoutRecord("a", "spring-cloud-gateway", "request_rate_limiter.{a}.tokens",
		"request_rate_limiter.{a}.timestamp")
	family.Members[1].Expires = time.Time{}
	gone := layoutRecord("u", "throttled", "u")
	records := []admin.Record{bytesOnly, family, gone}
	amended := layoutRecord("a", "spring-cloud-gateway", "request_rate_limiter.{a}.tokens")
	amended.Members[0].Dump = []byte("later")
	c, all := recordsIn(t, layoutBackup(t, "'*' --layout auto", func(w *Writer) error {
		return errors.Join(w.Write(true, amended), w.Exclude(gone))
	}, records...))
	if c.Damaged != 0 || c.Records != 2 {
		t.Errorf("it has %d records, damaged: %v", c.Records, c.Damage)
	}
	if want := []admin.Record{bytesOnly, amended}; !reflect.DeepEqual(all.Records, want) {
		t.Errorf("got  %+v\nwant %+v", all.Records, want)
	}
}

// An expiry that the scripts cannot represent becomes the latest that they can.
func TestLayoutExpiryOfAges(t *testing.T) {
	r := layoutRecord("u", "redis_rate", "rate:u")
	r.Members[0].Expires = time.UnixMilli(math.MaxInt64 / 2)
	if _, all := recordsIn(t, layoutBackup(
		t, "", nil, r)); all.Records[0].Members[0].Expires.UnixMilli() != latestOfOthers {
		t.Errorf("it expires at %s", all.Records[0].Members[0].Expires)
	}
}

// A record whose store keys do not fit its layout, or were not selected, costs only itself.
func TestEditedRecordsOfOtherLimiters(t *testing.T) {
	fine := layoutRecord("login:42", "redis_rate", "rate:login:42")
	for _, test := range []struct {
		selection string
		record    admin.Record
		want      string
	}{
		{"'*' --layout auto", layoutRecord("session:alice", "redis_rate", "session:alice"),
			`key "session:alice" cannot be of redis_rate`},
		{"'*' --layout auto", layoutRecord("login:42", "redis_rate", "rate:admin"), "is not of limit redis_rate"},
		{"'*' --layout auto", layoutRecord("u", "nosuch", "rate:u"), `layout "nosuch" is not known`},
		{"'*' --layout auto", record(t, "mine", 1), `key "mine" is limitctl's own`},
		{"'rate:*' --layout counter", layoutRecord("session:alice", "counter", "session:alice"),
			"was not selected by rate:*"},
		{"'rate:*' --layout counter --no-ttl", layoutRecord("rate:x", "counter", "rate:x"), ""},
		{"--exact 'rate:*' --layout counter", layoutRecord("rate:x", "counter", "rate:x"), "was not selected by"},
		{"--exact rate:login:42 --layout counter", layoutRecord("rate:x", "counter", "rate:x"),
			"was not selected by rate:login:42"},
		{"in the dashboard: a counter", layoutRecord("rate:x", "counter", "rate:x"), ""}, // the selection is unknown
	} {
		c, all := recordsIn(t, layoutBackup(t, test.selection, nil, fine, test.record, fine))
		if test.want == "" {
			if c.Damaged != 0 || len(all.Records) != 3 {
				t.Errorf("%s: %v", test.selection, c.Damage)
			}
			continue
		}
		if c.Damaged != 1 || !strings.Contains(c.Damage[0].Error(), test.want) ||
			!strings.HasPrefix(c.Damage[0].Error(), "line 3: ") {
			t.Errorf("%s: damage is %v, want %s", test.selection, c.Damage, test.want)
		}
		if len(all.Records) != 2 || all.Records[0].Members == nil || all.Records[0].Key != fine.Key {
			t.Errorf("%s: it brings back %+v", test.selection, all.Records)
		}
	}
	own := written(t, []admin.Record{record(t, "mine", 1), fine}, nil)
	if c, all := recordsIn(t, own); c.Damaged != 1 || len(all.Records) != 1 {
		t.Errorf("a backup of our own keys brings back %+v", all.Records)
	}
}

// Expiries, types and values out of bounds are damage.
func TestDamagedPartsOfOtherLimiters(t *testing.T) {
	line := func(storeKey, parts string) string {
		return fmt.Sprintf(`{"key":"u","name":"redis_rate","value":null,"parts":[{"store_key":%q,%s}],"expires_ms":-1}`,
			base64.StdEncoding.EncodeToString([]byte(storeKey)), parts) + "\n"
	}
	for lines, want := range map[string]string{
		line("rate:u", `"type":"string","dump":"YQ==","expires_ms":-1`):               "",
		line("rate:u", `"type":"string","dump":"YQ==","expires_ms":-2`):               "neither a time",
		line("rate:u", `"type":"string","dump":"YQ==","expires_ms":9007199254740993`): "neither a time",
		line("rate:u", `"type":"","dump":"YQ==","expires_ms":-1`):                     "no store key, type or value",
		line("", `"type":"string","dump":"YQ==","expires_ms":-1`):                     "no store key, type or value",
		line("rate:u", `"type":"string","dump":null,"expires_ms":-1`):                 "no store key, type or value",
	} {
		c, _ := recordsIn(t, append(layoutBackup(t, "", nil), lines...))
		if (want != "") != (c.Damaged == 1) || want != "" && !strings.Contains(c.Damage[0].Error(), want) {
			t.Errorf("%s is damaged by %v, want %q", lines, c.Damage, want)
		}
	}
}
