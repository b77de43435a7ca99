package output

import "testing"

func TestFiguresInWords(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Ratio(1), "1.00 ×"}, {
			Ratio(1.004), "1.004 ×",
		}, {Ratio(0.999), "0.999 ×"}, {Ratio(1.97), "1.97 ×"}, {Ratio(0), "0.00 ×"}, {Ratio(10), "10.00 ×"},
		{Share(0, 5), "0%"}, {Share(1, 10_000), "<0.1%"}, {
			Share(9_999, 10_000), ">99.9%",
		}, {Share(5, 5), "100%"}, {Share(1, 3), "33%"}, {Share(1, 0), "-"}, {Share(23, 1000), "2.3%"},
		{Micros(0), "0 µs"}, {Micros(999), "999 µs"}, {Micros(1240), "1.24 ms"}, {
			Micros(999_499), "999 ms",
		}, {Micros(999_500), "1 s"}, {Micros(1_003_000), "1 s"}, {Micros(72_000_000), "72 s"},
		{Thousands(0), "0"}, {Thousands(-1234), "-1,234"}, {Thousands(999), "999"}, {
			Thousands(1_000_000), "1,000,000",
		}, {Decimal(0.31), "0.31"}, {Decimal(0.0123), "0.012"}, {Decimal(9.996), "10"}, {Decimal(1180.4), "1,180"},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
}
