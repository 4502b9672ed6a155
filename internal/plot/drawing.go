package plot

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
)

// colours is the number of colours; further series share them, with other marks.
const colours = 8

// style is the same in every chart, and applies to nothing outside of charts, because the styles of all charts in a
// page apply to all of them.
const style = `.plot text{font:13px system-ui,sans-serif;fill:#24292f}
.plot .h{font-weight:600;font-size:16px}.plot .s{fill:#57606a;font-size:12px}.plot .n{font-weight:600}
.plot path{fill:none}.plot .g{stroke:#d8dee4}.plot .a{stroke:#57606a}.plot .lead{stroke:#afb8c1}
.plot .l{stroke:currentColor;stroke-width:2;stroke-linejoin:round}.plot .d{stroke-dasharray:5 4;stroke-width:1.5}
.plot .m,.plot .b{fill:currentColor;stroke:none}.plot text.n{fill:currentColor}
.plot .c0{color:#0072b2}.plot .c1{color:#b85c00}.plot .c2{color:#007d5a}.plot .c3{color:#b04a86}.plot .c4{color:#2687c4}.plot .c5{color:#8a6d00}.plot .c6{color:#5b4bb3}.plot .c7{color:#444c56}
@media(prefers-color-scheme:dark){.plot text{fill:#e6edf3}.plot .s{fill:#9198a1}.plot .g{stroke:#2d333b}.plot .a{stroke:#9198a1}.plot .lead{stroke:#57606a}
.plot .c0{color:#4aa8e8}.plot .c1{color:#f0923b}.plot .c2{color:#2fc296}.plot .c3{color:#e08dbd}.plot .c4{color:#8fd0f7}.plot .c5{color:#f0e442}.plot .c6{color:#a99bf5}.plot .c7{color:#adbac7}}
`

// drawing is an SVG being written.
type drawing struct{ b strings.Builder }

// newDrawing begins a drawing. Its ids depend on its texts, so that several charts can be in one page.
func newDrawing(title, desc string, w, h float64) *drawing {
	d := new(drawing)
	sum := fnv.New32a()
	io.WriteString(sum, title+"\x00"+desc) // never fails
	id := fmt.Sprintf("p%08x", sum.Sum32())
	fmt.Fprintf(&d.b, `<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %s %s" width="%[1]s" height="%[2]s" style="max-width:100%%;height:auto" role="img" aria-labelledby="%[3]st %[3]sd">`+"\n",
		number(w), number(h), id)
	fmt.Fprintf(&d.b, "<title id=\"%st\">%s</title>\n<desc id=\"%sd\">%s</desc>\n<style>\n%s</style>\n", id, escape(title), id, escape(desc), style)
	return d
}

// text writes s with its base line at x, y. anchor is start, middle or end; empty is start.
func (d *drawing) text(class string, x, y float64, anchor, s string) {
	if s == "" {
		return
	}
	if anchor != "" && anchor != "start" {
		anchor = ` text-anchor="` + anchor + `"`
	}
	fmt.Fprintf(&d.b, `<text class="%s" x="%s" y="%s"%s>%s</text>`+"\n", class, number(x), number(y), anchor, escape(s))
}

// upright writes s from bottom to top, with its middle at x, y.
func (d *drawing) upright(class string, x, y float64, s string) {
	fmt.Fprintf(&d.b, `<text class="%s" transform="translate(%s %s) rotate(-90)" text-anchor="middle">%s</text>`+"\n", class, number(x), number(y), escape(s))
}

// path draws a path, or nothing if it is empty.
func (d *drawing) path(class, path string) {
	if path != "" {
		fmt.Fprintf(&d.b, `<path class="%s" d="%s"/>`+"\n", class, path)
	}
}

// close writes the drawing to w.
func (d *drawing) close(w io.Writer) error {
	d.b.WriteString("</svg>\n")
	_, err := io.WriteString(w, d.b.String())
	return err
}

// escape escapes a text for XML. Characters that XML does not allow, such as control characters, become U+FFFD.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&quot;")
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0xfffe, r == 0xffff:
			b.WriteRune('\ufffd')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
