package driver

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of an election or id of a participant, in bytes.
const MaxName = 128

// CheckName returns nil if name can name an election in every back end: 1 to [MaxName] bytes of UTF-8, without white
// space, slashes or invisible characters, and not starting with a dot.
func CheckName(name string) error { return check("election name", name) }

// CheckID returns nil if id can name a participant in every back end. The rules are those of [CheckName].
func CheckID(id string) error { return check("id", id) }

func check(what, s string) error {
	const want = "want 1 to 128 bytes such as nightly-report"
	switch {
	case s == "":
		return fmt.Errorf("%s is empty; %s", what, want)
	case len(s) > MaxName:
		return fmt.Errorf("%s %.20q… has %d bytes; %s", what, s, len(s), want)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %q is not UTF-8; %s", what, s, want)
	case s[0] == '.':
		return fmt.Errorf("%s %q starts with a dot; %s", what, s, want)
	}
	for _, r := range s {
		if r == '/' || r == '\\' || r == ' ' || !unicode.IsPrint(r) {
			return fmt.Errorf("%s %q contains %q; %s", what, s, r, want)
		}
	}
	return nil
}

// MaxMetadata is the greatest size of a participant's metadata, in bytes over all keys and values.
const MaxMetadata = 4 << 10

// CheckMetadata returns nil if every back end can show m beside a leader: at most [MaxMetadata] of UTF-8.
func CheckMetadata(m map[string]string) error {
	size := 0
	for k, v := range m {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("metadata %.20q is not UTF-8; want text, or bytes in an encoding such as base64", k)
		}
		size += len(k) + len(v)
	}
	if size > MaxMetadata {
		return fmt.Errorf("metadata has %d bytes over all keys and values; want at most %d", size, MaxMetadata)
	}
	return nil
}
