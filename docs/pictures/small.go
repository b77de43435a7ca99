package main

import (
	"cmp"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"slices"
)

// small writes a PNG in the 256 colours that it has most. Pages have few colours, and the edges of letters look the same.
func small(to io.Writer, from io.Reader) error {
	picture, err := png.Decode(from)
	if err != nil {
		return err
	}
	bounds := picture.Bounds()
	count := map[color.Color]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[picture.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(number(a), number(b)))
	})
	colours := color.Palette(most[:min(256, len(most))])
	nearest := map[color.Color]uint8{}
	for _, c := range most {
		nearest[c] = uint8(colours.Index(c))
	}
	paletted := image.NewPaletted(bounds, colours)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			paletted.SetColorIndex(x, y, nearest[picture.At(x, y)])
		}
	}
	return (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(to, paletted)
}

// number orders colours, so that the same picture gives the same bytes.
func number(c color.Color) uint64 {
	r, g, b, a := c.RGBA()
	return uint64(r)<<48 | uint64(g)<<32 | uint64(b)<<16 | uint64(a)
}
