package cli

import "github.com/spf13/pflag"

// protectedRate is how many keys a second a scan looks at in a protected context unless --rate-limit-scan says
// otherwise: a tenth of what a server on one core could do, and what a dashboard reads.
const protectedRate = 20_000

// ScanRate is the flag --rate-limit-scan.
type ScanRate struct {
	given int
	flag  *pflag.Flag
}

// Add adds the flag.
func (r *ScanRate) Add(flags *pflag.FlagSet) {
	flags.IntVar(&r.given, "rate-limit-scan", 0,
		"look at no more than `N` keys a second, to spare the server; 0 for no bound (default 20000 in a protected context)")
	r.flag = flags.Lookup("rate-limit-scan")
}

// Given returns the keys a second of the flag; 0 if it is not given.
func (r *ScanRate) Given() (keysPerSecond int, err error) {
	if r.given < 0 {
		return 0, Usagef("--rate-limit-scan %d is negative; give keys per second, or 0 for no bound", r.given)
	}
	return r.given, nil
}

// KeysPerSecond returns how many keys a second a scan may look at; 0 means no bound.
func (r *ScanRate) KeysPerSecond(g *Globals) (int, error) {
	keys, err := r.Given()
	if err != nil || r.flag == nil || r.flag.Changed { // a command without the flag scans for a short time only
		return keys, err
	}
	s, err := g.Settings()
	if err != nil || !s.Access().Protected {
		return 0, err
	}
	return protectedRate, nil
}
