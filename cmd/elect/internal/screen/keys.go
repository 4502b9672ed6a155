package screen

import (
	"strings"
	"unicode/utf8"
)

// The names of keys that are not characters.
const (
	KeyUp       = "up"
	KeyDown     = "down"
	KeyLeft     = "left"
	KeyRight    = "right"
	KeyPageUp   = "page up"
	KeyPageDown = "page down"
	KeyEsc      = "esc"
	KeyTab      = "\t"
	KeyEnter    = "\r"
	CtrlC       = "\x03"
	CtrlZ       = "\x1a"
)

// split splits terminal input into keys. It drops unknown ones.
func split(sent string) []string {
	var keys []string
	for sent != "" {
		if rest, ok := strings.CutPrefix(sent, "\x1b"); ok {
			if len(rest) > 0 && (rest[0] == '[' || rest[0] == 'O') {
				end := strings.IndexFunc(rest[1:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
				if end < 0 {
					return keys
				}
				if key := named(rest[1 : end+2]); key != "" {
					keys = append(keys, key)
				}
				sent = rest[end+2:]
				continue
			}
			keys, sent = append(keys, KeyEsc), rest
			continue
		}
		r, n := utf8.DecodeRuneInString(sent)
		keys, sent = append(keys, string(r)), sent[n:]
	}
	return keys
}

// named is the key of a control sequence, without its first two characters; empty if the key is not known.
func named(sequence string) string {
	switch sequence[len(sequence)-1] {
	case 'A':
		return KeyUp
	case 'B':
		return KeyDown
	case 'C':
		return KeyRight
	case 'D':
		return KeyLeft
	}
	switch sequence {
	case "5~":
		return KeyPageUp
	case "6~":
		return KeyPageDown
	}
	return ""
}
