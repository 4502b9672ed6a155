// Package plot draws charts as SVG: lines and points over linear or logarithmic
// axes, and bars. What it writes is one self-contained element that can stand
// in a page or be a file of its own, follows the reader's light or dark
// setting, names itself to screen readers, and is the same to the byte for the
// same input.
//
// Colours are those of Okabe and Ito (Color Universal Design, 2008), which
// people with any kind of colour vision can tell apart; series differ by the
// shape of their marks as well.
//
// Charts are read and never changed, so any number of goroutines may draw one.
// A value that cannot be drawn (not a number, infinite, 0 on a logarithmic
// axis) is an error that says which one it is, before anything is written.
package plot
