// Package plot draws charts as SVG: lines and points over linear or logarithmic axes, and bars. A chart is one
// self-contained element, for a page or a file of its own. It follows the reader's light or dark setting, has a
// description for screen readers, and is byte for byte the same for the same input.
//
// Colours are those of Okabe and Ito (Color Universal Design, 2008), which people with any kind of colour vision can
// distinguish; series also differ by the shape of their marks.
//
// Charts are read and never changed, so any number of goroutines may draw one. A value that cannot be drawn (not a
// number, infinite, 0 on a logarithmic axis) is an error that names it, before anything is written.
package plot
