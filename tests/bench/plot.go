package main

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A curve is one place's figures of a series.
type curve struct {
	name   string
	points [][2]float64 // by x
}

// drawSeries draws each series of rows as an SVG file.
func drawSeries(dir string, lines []line) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	type plot struct {
		unit   string
		curves []curve
	}
	plots := map[string]*plot{}
	for _, l := range lines {
		if l.Series == "" || l.Median <= 0 {
			continue
		}
		p := plots[l.Series]
		if p == nil {
			p = &plot{unit: l.Unit}
			plots[l.Series] = p
		}
		i := slices.IndexFunc(p.curves, func(c curve) bool { return c.name == l.Place })
		if i < 0 {
			i = len(p.curves)
			p.curves = append(p.curves, curve{name: l.Place})
		}
		p.curves[i].points = append(p.curves[i].points, [2]float64{l.X, l.Median})
	}
	for name, p := range plots {
		along := "files"
		if _, by, ok := strings.Cut(name, " by "); ok {
			along = by
		}
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".svg")
		if err := os.WriteFile(file, []byte(draw(name, along, p.unit, p.curves)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const (
	plotWidth, plotHeight  = 460, 300
	plotLeft, plotRight    = 62, 110
	plotTop, plotBottom    = 34, 44
	innerWidth             = plotWidth - plotLeft - plotRight
	innerHeight            = plotHeight - plotTop - plotBottom
	gridColour, textColour = "#9993", "#777"
	textStyle              = `font-family="sans-serif" font-size="11" fill="` + textColour + `"`
)

var colours = []string{"#c76b00", "#2a78b5", "#3d8f3d", "#8a4fae", "#b33a3a"}

// An axis is logarithmic, over whole decades.
type axis struct{ from, to float64 } // exponents of ten

func (a axis) at(v float64) float64 { return (math.Log10(v) - a.from) / (a.to - a.from) }

// axisOf covers values, and at least two decades, so that what is flat looks so.
func axisOf(values []float64) axis {
	a := axis{math.Floor(math.Log10(slices.Min(values))), math.Ceil(math.Log10(slices.Max(values)))}
	for i := 0; a.to-a.from < 2; i++ {
		if i%2 == 0 {
			a.to++
		} else {
			a.from--
		}
	}
	return a
}

// draw is a plot of curves, both axes logarithmic.
func draw(title, along, unit string, curves []curve) string {
	var xs, ys []float64
	for _, c := range curves {
		for _, p := range c.points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	ax, ay := axisOf(xs), axisOf(ys)
	x := func(v float64) float64 { return plotLeft + innerWidth*ax.at(v) }
	y := func(v float64) float64 { return plotTop + innerHeight*(1-ay.at(v)) }
	var s strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">`, plotWidth, plotHeight)
	put(`<text x="%d" y="18" %s font-weight="bold">%s (%s)</text>`, plotLeft, textStyle, html.EscapeString(title), unit)
	for e := ax.from; e <= ax.to; e++ {
		v := math.Pow(10, e)
		put(`<path d="M%.1f %d V%d" stroke="%s"/>`, x(v), plotTop, plotTop+innerHeight, gridColour)
		put(`<text x="%.1f" y="%d" %s text-anchor="middle">%s</text>`, x(v), plotTop+innerHeight+16, textStyle, short(v))
	}
	for e := ay.from; e <= ay.to; e++ {
		v := math.Pow(10, e)
		put(`<path d="M%d %.1f H%d" stroke="%s"/>`, plotLeft, y(v), plotLeft+innerWidth, gridColour)
		put(`<text x="%d" y="%.1f" %s text-anchor="end">%s</text>`, plotLeft-6, y(v)+4, textStyle, short(v))
	}
	put(`<text x="%d" y="%d" %s text-anchor="middle">%s</text>`, plotLeft+innerWidth/2, plotHeight-8, textStyle, along)
	for i, c := range curves {
		slices.SortFunc(c.points, func(a, b [2]float64) int { return int(a[0] - b[0]) })
		colour := colours[i%len(colours)]
		var path strings.Builder
		for j, p := range c.points {
			fmt.Fprintf(&path, "%c%.1f %.1f ", "ML"[min(j, 1)], x(p[0]), y(p[1]))
			put(`<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, x(p[0]), y(p[1]), colour)
		}
		put(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, strings.TrimSpace(path.String()), colour)
		last := c.points[len(c.points)-1]
		put(`<text x="%.1f" y="%.1f" %s style="fill:%s">%s</text>`, x(last[0])+7, y(last[1])+4, textStyle, colour,
			html.EscapeString(c.name+" "+figure(last[1])))
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// short writes a power of ten.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return fmt.Sprintf("%g", v)
}
