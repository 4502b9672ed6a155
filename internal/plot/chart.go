package plot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// MaxSeries is the greatest number of series of a chart: there are no more distinguishable pairs of colour and mark.
const MaxSeries = 24

// Chart is an area with two axes and series of points.
type Chart struct {
	Title    string // required
	Subtitle string
	X, Y     string // the labels of the axes, with the unit
	// LogX and LogY make an axis logarithmic. Its values must be above 0.
	LogX, LogY bool
	Series     []Series // at most MaxSeries; empty ones are named and not drawn
}

// Series is a set of points with a name.
type Series struct {
	// Name is written beside the last point. A series without a name belongs to the one before it and has its colour,
	// for example a formula with measured points.
	Name   string
	Points []Point
	// Line joins the points in their order. Otherwise each has a mark.
	Line bool
	// Dashed is for values that were not measured, such as a formula: a broken line without marks.
	Dashed bool
}

// Point is one value.
type Point struct{ X, Y float64 }

// The sizes of a chart, in pixels.
const (
	width     = 760
	height    = 420
	left      = 66
	bottom    = 52
	marks     = 40  // a line with more points than this has no marks
	perLetter = 8.3 // the widest of the usual fonts, bold at 13 px
)

// SVG writes the chart.
func (c *Chart) SVG(w io.Writer) error {
	if err := c.validate(); err != nil {
		return err
	}
	var xs, ys []float64
	longest := 0
	for _, s := range c.Series {
		longest = max(longest, len([]rune(s.Name)))
		for _, p := range s.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	top := 42.0
	if c.Subtitle != "" {
		top += 20
	}
	right := width - max(24, 30+perLetter*float64(min(longest, 40)))
	x := newAxis(xs, c.LogX, left, right)
	y := newAxis(ys, c.LogY, height-bottom, top)

	d := newDrawing(c.Title, c.says(), width, height)
	d.text("h", left-48, 24, "", c.Title)
	if c.Subtitle != "" {
		d.text("s", left-48, 43, "", c.Subtitle)
	}
	var grid strings.Builder
	for _, t := range y.ticks {
		fmt.Fprintf(&grid, "M%s %sH%s", number(left), number(y.at(t)), number(right))
		d.text("s", left-8, y.at(t)+4, "end", Number(t))
	}
	for _, t := range x.ticks {
		fmt.Fprintf(&grid, "M%s %sV%s", number(x.at(t)), number(top), number(height-bottom))
		d.text("s", x.at(t), height-bottom+18, "middle", Number(t))
	}
	d.path("g", grid.String())
	d.path("a", fmt.Sprintf("M%s %sV%sH%s", number(left), number(top), number(height-bottom), number(right)))
	d.text("s", (left+right)/2, height-12, "middle", c.X)
	if c.Y != "" {
		d.upright("s", 16, (top+height-bottom)/2, c.Y)
	}
	if len(xs) == 0 {
		d.text("s", (left+right)/2, (top+height-bottom)/2, "middle", "nothing to show")
	}
	var names []label
	i := -1
	for k, s := range c.Series {
		if s.Name != "" || k == 0 {
			i++
		}
		if len(s.Points) == 0 {
			continue
		}
		c.series(d, i, s, x, y)
		if s.Name == "" {
			continue
		}
		last := s.Points[len(s.Points)-1]
		names = append(names, label{i, s.Name, x.at(last.X), y.at(last.Y), y.at(last.Y)})
	}
	spread(names, top+4, height-bottom)
	for _, n := range names {
		// A thin line connects the last point with a name that had to move.
		if n.to != n.from || n.x < right-1 {
			d.path("lead", fmt.Sprintf("M%s %sL%s %s", number(n.x+4), number(n.from), number(right+10), number(n.to)))
		}
		d.text("c"+fmt.Sprint(n.series%colours)+" n", right+14, n.to+4, "", n.name)
	}
	return d.close(w)
}

// series draws one series.
func (c *Chart) series(d *drawing, i int, s Series, x, y axis) {
	class := fmt.Sprintf("c%d", i%colours)
	if s.Line || s.Dashed {
		var p strings.Builder
		for j, at := range s.Points {
			fmt.Fprintf(&p, "%s%s %s", [...]string{"M", "L"}[min(j, 1)], number(x.at(at.X)), number(y.at(at.Y)))
		}
		line := class + " l"
		if s.Dashed {
			line += " d"
		}
		d.path(line, p.String())
	}
	if !s.Dashed && (!s.Line || len(s.Points) <= marks) || len(s.Points) == 1 {
		var p strings.Builder
		for _, at := range s.Points {
			mark(&p, i, x.at(at.X), y.at(at.Y))
		}
		d.path(class+" m", p.String())
	}
}

// label is a series' name beside the plot.
type label struct {
	series   int
	name     string
	x        float64
	from, to float64
}

// spread moves labels apart, so that none covers another, within from and to if
// they fit.
func spread(all []label, from, to float64) {
	const line = 15
	slices.SortStableFunc(all, func(a, b label) int { return cmp.Compare(a.from, b.from) })
	for i := range all {
		if i > 0 {
			all[i].to = max(all[i].to, all[i-1].to+line)
		} else {
			all[i].to = max(all[i].to, from)
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		all[i].to = min(all[i].to, to)
		to = all[i].to - line
	}
}

func (c *Chart) validate() error {
	if c.Title == "" {
		return errors.New("chart: no title; want one that says what it shows")
	}
	if len(c.Series) > MaxSeries {
		return fmt.Errorf("chart: %d series; want at most %d", len(c.Series), MaxSeries)
	}
	for _, s := range c.Series {
		for i, p := range s.Points {
			if err := cmp.Or(drawable("x", p.X, c.LogX), drawable("y", p.Y, c.LogY)); err != nil {
				return fmt.Errorf("chart: series %q: point %d: %w", s.Name, i, err)
			}
		}
	}
	return nil
}

func drawable(what string, v float64, log bool) error {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v) > 1e300 || v != 0 && math.Abs(v) < 1e-300:
		return fmt.Errorf("%s = %v; want a number between 1e-300 and 1e300 or 0", what, v)
	case log && v <= 0:
		return fmt.Errorf("%s = %v on a logarithmic axis; want more than 0", what, v)
	}
	return nil
}

// says describes the chart in words.
func (c *Chart) says() string {
	var b strings.Builder
	if c.Subtitle != "" {
		b.WriteString(c.Subtitle + ". ")
	}
	fmt.Fprintf(&b, "%s against %s.", cmp.Or(c.Y, "Values"), cmp.Or(c.X, "values"))
	for _, s := range c.Series {
		if n := len(s.Points); n > 0 && s.Name != "" {
			first, last := s.Points[0], s.Points[n-1]
			fmt.Fprintf(&b, " %s: %s at %s to %s at %s.", s.Name, Number(first.Y), Number(first.X), Number(last.Y), Number(last.X))
		}
	}
	return b.String()
}
