package cmd

import (
	"math"
	"strconv"
	"strings"
)

// parseShare reads a share such as "80%" or "0.8", and tells whether it was a percentage.
func parseShare(text string) (share float64, percent bool, err error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	share, err = strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if math.IsNaN(share) {
		err = strconv.ErrSyntax
	}
	return share, percent, err
}
