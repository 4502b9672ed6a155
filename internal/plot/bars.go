package plot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bars compares one value of several things, one in each row.
type Bars struct {
	Title string // required
	Unit  string // of the values, such as "ms"
	// Log makes the axis logarithmic. A value of 0 has no bar then.
	Log  bool
	Rows []Bar // from top to bottom
}

// Bar is one row.
type Bar struct {
	Name  string
	Value float64 // 0 or more
	// Label is written beside the bar; empty is the value.
	Label string
	// None means that there is no value. Label says so; empty is "none".
	None bool
	// Class groups rows. Rows of a class have a colour, which is explained above the bars if there is more than one
	// class. Empty is a class without a name.
	Class string
}

// SVG writes the bars.
func (c *Bars) SVG(w io.Writer) error {
	if err := c.validate(); err != nil {
		return err
	}
	const row, bar = 26, 16
	var values []float64
	var classes []string
	name, note := 0, 4
	for _, r := range c.Rows {
		name, note = max(name, len([]rune(r.Name))), max(note, len([]rune(r.label())))
		if !r.None && (r.Value > 0 || !c.Log) {
			values = append(values, r.Value)
		}
		if !slices.Contains(classes, r.Class) {
			classes = append(classes, r.Class)
		}
	}
	from := 24 + perLetter*float64(min(name, 40))
	to := width - 24 - perLetter*float64(min(note, 40))
	if !c.Log {
		values = append(values, 0)
	}
	x := newAxis(values, c.Log, from, to)
	if c.Log && len(values) > 0 {
		x.widen()
	}
	top := 40.0
	if len(classes) > 1 {
		top += 24
	}
	foot := top + row*float64(max(1, len(c.Rows)))

	d := newDrawing(c.Title, c.says(), width, foot+44)
	d.text("h", 18, 24, "", c.Title)
	if len(classes) > 1 {
		at := 18.0
		for i, class := range classes {
			if class == "" {
				continue
			}
			d.path(fmt.Sprintf("c%d b", i%colours), fmt.Sprintf("M%s 38h12v12h-12z", number(at)))
			d.text("s", at+18, 48, "", class)
			at += 40 + perLetter*float64(len([]rune(class)))
		}
	}
	var grid strings.Builder
	for _, t := range x.ticks {
		fmt.Fprintf(&grid, "M%s %sV%s", number(x.at(t)), number(top), number(foot))
		d.text("s", x.at(t), foot+16, "middle", Number(t))
	}
	d.path("g", grid.String())
	if len(c.Rows) == 0 {
		d.text("s", (from+to)/2, (top+foot)/2, "middle", "nothing to show")
	}
	for i, r := range c.Rows {
		y := top + row*float64(i)
		d.text("", from-8, y+row/2+4, "end", r.Name)
		end := from
		if !r.None && (r.Value > 0 || !c.Log) {
			end = x.at(r.Value)
			class := slices.Index(classes, r.Class) % colours
			d.path(fmt.Sprintf("c%d b", class), fmt.Sprintf("M%s %sH%sv%dH%sz", number(from), number(y+(row-bar)/2), number(max(end, from+1)), bar, number(from)))
		}
		d.text("s", end+6, y+row/2+4, "", r.label())
	}
	d.path("a", fmt.Sprintf("M%s %sV%s", number(from), number(top), number(foot)))
	d.text("s", (from+to)/2, foot+36, "middle", c.Unit)
	return d.close(w)
}

// widen moves the end of the axis a step below the least value, which would otherwise have no bar.
func (a *axis) widen() {
	a.lo -= (a.hi - a.lo) / 12
}

func (r *Bar) label() string {
	if r.None {
		return cmp.Or(r.Label, "none")
	}
	return cmp.Or(r.Label, Number(r.Value))
}

func (c *Bars) validate() error {
	if c.Title == "" {
		return errors.New("bars: no title; want one that says what they show")
	}
	for _, r := range c.Rows {
		if r.None {
			continue
		}
		if err := drawable("value", r.Value, false); err != nil {
			return fmt.Errorf("bars: row %q: %w", r.Name, err)
		}
		if r.Value < 0 {
			return fmt.Errorf("bars: row %q: value = %v; want 0 or more", r.Name, r.Value)
		}
	}
	return nil
}

// says describes the bars in words.
func (c *Bars) says() string {
	var b strings.Builder
	b.WriteString(cmp.Or(c.Unit, "Values") + ".")
	for _, r := range c.Rows {
		fmt.Fprintf(&b, " %s: %s.", r.Name, r.label())
	}
	return b.String()
}
