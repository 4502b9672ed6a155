package demo

import (
	"strings"
	"unicode/utf8"
)

// style is the look of a text. Each has a meaning and one colour, so that a colour always means the same; every state
// is also shown in words.
type style int

const (
	normal style = iota
	strong
	faint
	leading
	warning // paused
	cutOff
	failed
	picked // the selected node
)

// codes are colours of the 16 that every terminal has, by their SGR numbers.
var codes = [...]string{
	normal: "", strong: "1", faint: "2", leading: "32;1", warning: "33;1", cutOff: "35;1", failed: "31;1", picked: "36;1",
}

// piece is text of one style, and row is a line of the picture.
type piece struct {
	text  string
	style style
}

type row []piece

// glyphs are the characters of the picture.
type glyphs struct {
	across, down, topLeft, topRight, bottomLeft, bottomRight string // of the boxes
	full, left, right, track                                 string // of work, and of a used lease
	standing, frozen, severed, sep                           string
	leads                                                    string
}

// Both sets have the same widths.
func unicodeGlyphs() glyphs {
	return glyphs{
		across: "─", down: "│", topLeft: "┌", topRight: "┐", bottomLeft: "└", bottomRight: "┘",
		full: "█", left: "▌", right: "▐", track: "░", standing: "─", frozen: "░", severed: "╌", sep: "·", leads: "★",
	}
}

func asciiGlyphs() glyphs {
	return glyphs{
		across: "-", down: "|", topLeft: "+", topRight: "+", bottomLeft: "+", bottomRight: "+",
		full: "#", left: "[", right: "]", track: ".", standing: "-", frozen: ":", severed: "~", sep: "-", leads: "*",
	}
}

// words makes a row of one piece.
func words(style style, text string) row { return row{{text, style}} }

func (r row) width() (n int) {
	for _, p := range r {
		n += utf8.RuneCountInString(p.text)
	}
	return n
}

// fit truncates the row, or fills it with blanks, to the width.
func (r row) fit(width int) row {
	var fitted row
	left := max(width, 0)
	for _, p := range r {
		text := []rune(p.text)
		if len(text) > left {
			text = text[:left]
		}
		if len(text) > 0 {
			fitted = append(fitted, piece{string(text), p.style})
			left -= len(text)
		}
	}
	if left > 0 {
		fitted = append(fitted, piece{strings.Repeat(" ", left), normal})
	}
	return fitted
}

// paint formats a row, with or without colours. It drops blanks at the end.
func (r row) paint(colour bool) string {
	var b strings.Builder
	for _, p := range r {
		if code := codes[p.style]; colour && code != "" && strings.TrimSpace(p.text) != "" {
			b.WriteString("\x1b[" + code + "m" + p.text + "\x1b[0m")
			continue
		}
		b.WriteString(p.text)
	}
	return strings.TrimRight(b.String(), " ")
}

// wrap breaks text into lines of at most width, between words if possible. Lines after the first are indented.
func wrap(text string, width, indent int) []string {
	var lines []string
	now := ""
	flush := func() {
		lines = append(lines, now)
		now = strings.Repeat(" ", indent)
	}
	for word := range strings.FieldsSeq(text) {
		gap := 1
		if strings.TrimSpace(now) == "" {
			gap = 0
		}
		if utf8.RuneCountInString(now)+gap+utf8.RuneCountInString(word) > width && gap > 0 {
			flush()
			gap = 0
		}
		now += strings.Repeat(" ", gap)
		for _, r := range word {
			if utf8.RuneCountInString(now) >= max(width, indent+1) {
				flush()
			}
			now += string(r)
		}
	}
	return append(lines, now)
}
