//go:build linux

package judge

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// The measures of a timeline, in pixels.
const (
	pictureWidth = 1500.0
	nameWidth    = 80.0
	rowHeight    = 16.0
	axisHeight   = 22.0
	// least is how wide a bar is drawn at least, so that one sees it; and of bars of
	// one kind that begin within a third of that one is drawn.
	least = 0.9
)

// timeline draws the rows in a time as SVG. It has no more elements than fit in its
// width, however long the run was.
func (r *run) timeline(rows []row, during span, marks []Violation) string {
	var b strings.Builder
	height := axisHeight + rowHeight*float64(len(rows)) + 4
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="timeline" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img">`, pictureWidth, height, pictureWidth, height)
	fmt.Fprintf(&b, `<title>%s</title>`, clean(fmt.Sprintf("from %s to %s", r.since(during.from), r.since(during.to))))
	scale := (pictureWidth - nameWidth) / float64(max(during.length(), 1))
	x := func(at int64) float64 {
		return nameWidth + scale*float64(min(max(at, during.from), during.to)-during.from)
	}
	step := niceStep(time.Duration(during.length()))
	for at := (during.from - r.from + int64(step) - 1) / int64(step) * int64(step); at+r.from <= during.to; at += int64(step) {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/><text class="axis" x="%.1f" y="14">%s</text>`,
			x(at+r.from), x(at+r.from), axisHeight-4, height, x(at+r.from)+2, clean(time.Duration(at).String()))
	}
	for i, w := range rows {
		y := axisHeight + rowHeight*float64(i)
		fmt.Fprintf(&b, `<text class="name" x="2" y="%.1f">%s</text>`, y+12, clean(w.name))
		drawn := map[string]float64{} // class → where the last one ended
		for _, s := range w.bars {
			if s.to < during.from || s.from > during.to {
				continue
			}
			x0, x1 := x(s.from), x(s.to)
			x1 = max(x1, x0+least)
			if end, ok := drawn[s.class]; ok && x1 <= end+least/3 {
				continue
			}
			drawn[s.class] = x1
			label, text, ok := strings.Cut(s.text, "\n")
			if !ok {
				label, text = "", s.text
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%.1f" width="%.2f" height="%.1f"><title>%s</title></rect>`, clean(s.class), x0, y+1, x1-x0, rowHeight-2, clean(text))
			if fits := 6.0 * float64(len(label)); label != "" && fits < x1-x0 {
				fmt.Fprintf(&b, `<text class="label" x="%.1f" y="%.1f">%s</text>`, x0+2, y+12, clean(label))
			}
		}
	}
	last := math.Inf(-1)
	for _, v := range marks {
		if v.At < during.from || v.At > during.to || x(v.At) < last+least {
			continue
		}
		last = x(v.At)
		fmt.Fprintf(&b, `<line class="violation" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"><title>%s</title></line>`, last, last, axisHeight-6, height, clean(v.Check+": "+v.Text))
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// clean is text as it may stand in SVG and HTML, in quotes or not.
func clean(text string) string {
	return html.EscapeString(strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0xFFFE || c == 0xFFFF {
			return '\uFFFD' // XML has no way to say it
		}
		return c
	}, text))
}

// niceStep is a distance of grid lines for a time, of which there are at most 12.
func niceStep(d time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		if unit >= time.Second { // then in minutes and hours
			break
		}
		for _, n := range []time.Duration{1, 2, 5} {
			if d/(n*unit) <= 12 {
				return n * unit
			}
		}
	}
	for _, s := range []time.Duration{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200} {
		if d/(s*time.Second) <= 12 {
			return s * time.Second
		}
	}
	return max(d/12, time.Hour).Round(time.Hour)
}

// view is a part of the run that deserves a picture of its own.
type view struct {
	span
	title string
}

// views are the run as a whole, what is around violations, and the longest times
// without a leader.
func (r *Report) views() []view {
	whole := span{r.From, max(r.To, r.From+1)}
	all := []view{{whole, "the whole run"}}
	around := func(at int64, length time.Duration, title string) {
		margin := max(int64(length), int64(time.Second))
		s := span{at - margin, at + int64(length) + margin}
		if len(all) > mostViews || slices.ContainsFunc(all[1:], func(v view) bool { return v.both(s).length() > s.length()/2 }) {
			return
		}
		all = append(all, view{s, title})
	}
	for _, v := range r.Violations {
		if v.At != 0 {
			around(v.At, 0, fmt.Sprintf("%s at %s", v.Check, r.since(v.At)))
		}
	}
	for _, l := range r.Leaderless[:min(len(r.Leaderless), shownTimes)] {
		around(l.From, l.Length, fmt.Sprintf("without a leader for %v at %s", short(l.Length), r.since(l.From)))
	}
	return all
}

// mostViews is how many pictures there are beside that of the whole run.
const mostViews = 10
