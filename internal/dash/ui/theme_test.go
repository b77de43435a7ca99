package ui

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/muesli/termenv"
)

// contrast is that of two colours, as WCAG 2 computes it.
func contrast(a, b string) float64 {
	luminance := func(hex string) (sum float64) {
		var rgb [3]uint8
		fmt.Sscanf(hex, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2])
		for i, weight := range [3]float64{0.2126, 0.7152, 0.0722} {
			c := float64(rgb[i]) / 255
			if c <= 0.03928 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// of256 is a colour of the cube or the greys of 256.
func of256(number string) string {
	var n int
	fmt.Sscan(number, &n)
	if n >= 232 {
		return fmt.Sprintf("#%02[1]x%02[1]x%02[1]x", 8+10*(n-232))
	}
	levels := [6]int{0, 95, 135, 175, 215, 255}
	return fmt.Sprintf("#%02x%02x%02x", levels[(n-16)/36], levels[(n-16)/6%6], levels[(n-16)%6])
}

// Every text can be read on every background, as far as that is known; where it is not, on black and on white.
func TestContrast(t *testing.T) {
	backgrounds := [3][]string{Unknown: {"#000000", "#ffffff"}, Dark: {"#000000", "#1e1e1e"},
		Light: {"#ffffff", "#fdf6e3"}}
	for name, c := range map[string]colour{"denied": denied, "near": near, "room": room, "accent": accent,
		"faint": faint} {
		for background, on := range backgrounds {
			for _, of := range on {
				for _, hex := range []string{c.full[background], of256(c.of256[background])} {
					if got := math.Round(contrast(hex, of)*10) / 10; got < 4.5 {
						t.Errorf("%s: %s on %s has %.2f : 1", name, hex, of, got)
					}
				}
			}
		}
	}
}

func TestTheThemeOfATerminal(t *testing.T) {
	for env, want := range map[string]string{
		"COLORTERM=truecolor COLORFGBG=15;0":          "\x1b[1;38;2;255;123;113mx\x1b[0m",
		"COLORTERM=truecolor COLORFGBG=0;15":          "\x1b[1;38;2;179;0;27mx\x1b[0m",
		"COLORTERM=24bit":                             "\x1b[1;38;2;235;6;27mx\x1b[0m",
		"TERM=xterm-256color COLORFGBG=12;default;15": "\x1b[1;38;5;124mx\x1b[0m",
		"TERM=xterm": "\x1b[1;31mx\x1b[0m",
	} {
		theme := OfTerminal(func(name string) string {
			for variable := range strings.FieldsSeq(env) {
				if value, is := strings.CutPrefix(variable, name+"="); is {
					return value
				}
			}
			return ""
		})
		if got := theme.Denied.Of("x"); got != want {
			t.Errorf("%s: %q, want %q", env, got, want)
		}
	}
	if got := newTheme(termenv.Ascii, Dark).Denied.Of("x"); got != "x" {
		t.Errorf("without colours: %q", got)
	}
}
