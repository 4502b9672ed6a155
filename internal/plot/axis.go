package plot

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// axis maps values to pixels.
type axis struct {
	log      bool
	lo, hi   float64 // values, or their logarithms
	from, to float64 // pixels
	ticks    []float64
}

// newAxis returns an axis that shows the values, with round ends.
func newAxis(values []float64, log bool, from, to float64) axis {
	a := axis{log: log, from: from, to: to}
	lo, hi := 0.0, 1.0
	if log {
		lo, hi = 1, 10
	}
	if len(values) > 0 {
		lo, hi = slices.Min(values), slices.Max(values)
	}
	if log {
		a.logarithmic(lo, hi)
	} else {
		a.linear(lo, hi)
	}
	return a
}

// linear sets ticks at 1, 2 or 5 times a power of ten. 0 is on the axis unless all values are far from it.
func (a *axis) linear(lo, hi float64) {
	if lo > 0 && lo < hi/2 || lo == hi && lo > 0 {
		lo = 0
	}
	if hi < 0 && hi > lo/2 || lo == hi && hi < 0 {
		hi = 0
	}
	if lo == hi {
		hi = lo + 1
	}
	step := Step((hi - lo) / 5)
	first, last := math.Floor(lo/step+1e-9), math.Ceil(hi/step-1e-9)
	for i := first; i <= last; i++ {
		a.ticks = append(a.ticks, round(i*step))
	}
	a.lo, a.hi = a.ticks[0], a.ticks[len(a.ticks)-1]
}

// logarithmic sets ticks at the powers of ten. If these are few it adds 2 and 5 times them; if they are many it omits
// some.
func (a *axis) logarithmic(lo, hi float64) {
	first, last := math.Floor(math.Log10(lo)+1e-9), math.Ceil(math.Log10(hi)-1e-9)
	// The end is the next 1, 2 or 5, so that little of the area is empty.
	low, high := lo, hi
	for _, m := range []float64{1, 2, 5} {
		if v := m * math.Pow(10, first); v <= lo*(1+1e-9) {
			low = v
		}
	}
	for _, m := range []float64{1, .5, .2} {
		if v := m * math.Pow(10, last); v >= hi*(1-1e-9) {
			high = v
		}
	}
	if low >= high {
		high = low * 10
		last = math.Ceil(math.Log10(high) - 1e-9)
	}
	between := []float64{1}
	if math.Log10(high/low) < 2.5 {
		between = []float64{1, 2, 5}
	}
	every := max(1, math.Ceil((last-first)/8))
	for e := first; e <= last; e += every {
		for _, m := range between {
			if v := round(m * math.Pow(10, e)); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				a.ticks = append(a.ticks, v)
			}
		}
	}
	a.lo, a.hi = math.Log10(low), math.Log10(high)
}

// at is the position of a value, in pixels.
func (a *axis) at(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	// Scaled first: a difference of two great values may not be a number.
	return a.from + (v/2-a.lo/2)/(a.hi/2-a.lo/2)*(a.to-a.from)
}

// Step is the least of 1, 2 and 5 times a power of ten that is not below v,
// which is above 0.
func Step(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*ten >= v*(1-1e-9) {
			return m * ten
		}
	}
	return 10 * ten
}

// round removes what binary fractions add, as in 0.30000000000000004.
func round(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// Number formats a value for an axis: three digits and k, M, G or T for thousands, millions, …, such as 1.5k.
func Number(v float64) string {
	suffix, a := "", math.Abs(v)
	switch {
	case a != 0 && a < 1e-3 || a >= 1e15:
		return strconv.FormatFloat(round(v), 'g', 3, 64)
	case a >= 1e12:
		suffix, v = "T", v/1e12
	case a >= 1e9:
		suffix, v = "G", v/1e9
	case a >= 1e6:
		suffix, v = "M", v/1e6
	case a >= 1e4:
		suffix, v = "k", v/1e3
	}
	digits := 3
	if suffix == "" && a >= 1000 {
		digits = 4
	}
	s := strconv.FormatFloat(v, 'g', digits, 64)
	if strings.Contains(s, "e") { // 999.9 of a suffix rounds to 1e+03
		s = strconv.FormatFloat(v, 'f', 0, 64)
	}
	return s + suffix
}

// number formats a coordinate: with one digit after the point, unless that is 0.
func number(v float64) string {
	s := strconv.FormatFloat(math.Round(v*10)/10, 'f', 1, 64)
	s = strings.TrimSuffix(s, ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// mark appends the mark of series i at a place. Its shape changes with i, so that series differ by more than the
// colour.
func mark(b *strings.Builder, i int, x, y float64) {
	px, py := number(x), number(y)
	switch (i + i/colours) % 6 {
	case 0: // circle
		fmt.Fprintf(b, "M%s %sa4 4 0 1 0 8 0a4 4 0 1 0-8 0", number(x-4), py)
	case 1: // square
		fmt.Fprintf(b, "M%s %sh7v7h-7z", number(x-3.5), number(y-3.5))
	case 2: // triangle
		fmt.Fprintf(b, "M%s %sl5 8.5h-10z", px, number(y-5))
	case 3: // diamond
		fmt.Fprintf(b, "M%s %sl5 5l-5 5l-5-5z", px, number(y-5))
	case 4: // inverted triangle
		fmt.Fprintf(b, "M%s %sl5-8.5h-10z", px, number(y+5))
	default: // hourglass
		fmt.Fprintf(b, "M%s %sh8l-8 8h8z", number(x-4), number(y-4))
	}
}
