package driver_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/electd/elect/driver"
)

func TestCheckName(t *testing.T) {
	for name, says := range map[string]string{
		"a":                        "",
		"nightly-report":           "",
		"web-3:4711":               "",
		"größe":                    "",
		"東京":                       "",
		"a.b":                      "",
		"@~!$%&'()*+,;=?#[]":       "",
		strings.Repeat("x", 128):   "",
		"":                         "is empty; want 1 to 128 bytes",
		strings.Repeat("x", 129):   "has 129 bytes; want 1 to 128 bytes",
		strings.Repeat("x", 1<<20): "has 1048576 bytes",
		strings.Repeat("ö", 65):    "has 130 bytes",
		".":                        "starts with a dot",
		"..":                       "starts with a dot",
		".hidden":                  "starts with a dot",
		"a/b":                      `contains '/'`,
		`a\b`:                      `contains '\\'`,
		"a b":                      `contains ' '`,
		"a\tb":                     `contains '\t'`,
		"a\n":                      `contains '\n'`,
		"a\x00b":                   `contains '\x00'`,
		"a\x7f":                    `contains '\x7f'`,
		"a\u0085b":                 `contains '\u0085'`,
		"a\u00a0b":                 `contains '\u00a0'`, // a space that does not break
		"a\u3000b":                 `contains '\u3000'`,
		"a\u200bb":                 `contains '\u200b'`, // a space of no width
		"a\u202eb":                 `contains '\u202e'`, // turns what follows around
		"\ufeffa":                  `contains '\ufeff'`,
		"a\xff":                    "is not UTF-8",
		"\xc0\xaf":                 "is not UTF-8",      // an overlong slash
		"a" + string(rune(0xe000)): `contains '\ue000'`, // private use
	} {
		for what, check := range map[string]func(string) error{"election name": driver.CheckName, "id": driver.CheckID} {
			err := check(name)
			switch {
			case says == "" && err != nil:
				t.Errorf("%s %q: %v", what, name, err)
			case says != "" && (err == nil || !strings.HasPrefix(err.Error(), what+" ") || !strings.Contains(err.Error(), says)):
				t.Errorf("%s %.50q: %v; want it to say %q", what, name, err, says)
			case err != nil && (len(err.Error()) > 600 || strings.ContainsFunc(err.Error(), unicode.IsControl)):
				t.Errorf("%s %.50q: the error is no short line: %q", what, name, err)
			}
		}
	}
}

// FuzzCheckName: what is accepted keeps the promise of its documentation, and
// an id is held to the same.
func FuzzCheckName(f *testing.F) {
	for _, seed := range []string{"", ".", "a", "a/b", "größe", "a\u202eb", "\xff", strings.Repeat("x", 129)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := driver.CheckName(name)
		if (driver.CheckID(name) == nil) != (err == nil) {
			t.Fatalf("CheckName(%q) says %v, and CheckID %v", name, err, driver.CheckID(name))
		}
		if err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Fatalf("the error for %q holds control characters: %q", name, err)
			}
			return
		}
		if name == "" || len(name) > driver.MaxName || name[0] == '.' || !utf8.ValidString(name) ||
			strings.ContainsAny(name, `/\`) || strings.ContainsFunc(name, unicode.IsSpace) || strings.ContainsFunc(name, unicode.IsControl) {
			t.Fatalf("CheckName accepted %q", name)
		}
	})
}
