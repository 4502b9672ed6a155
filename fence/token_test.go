package fence_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/electd/elect/fence"
)

func TestNewToken(t *testing.T) {
	for _, tt := range []struct {
		era, count uint64
		want       fence.Token // 0 for an error
	}{
		{0, 1, 1},
		{0, fence.MaxCount, 1<<48 - 1},
		{1, 1, 1<<48 + 1},
		{fence.MaxEra, fence.MaxCount, fence.MaxToken},
		{0, 0, 0},
		{1, 0, 0},
		{0, fence.MaxCount + 1, 0},
		{fence.MaxEra + 1, 1, 0},
		{1 << 63, 1, 0},
	} {
		got, err := fence.NewToken(tt.era, tt.count)
		if got != tt.want || (err == nil) != (tt.want != 0) || err != nil && !errors.Is(err, fence.ErrToken) {
			t.Errorf("NewToken(%d, %d) = %d, %v; want %d", tt.era, tt.count, uint64(got), err, uint64(tt.want))
			continue
		}
		if err == nil && (!got.Valid() || got.Era() != tt.era || got.Count() != tt.count) {
			t.Errorf("NewToken(%d, %d) has era %d, count %d, valid %v", tt.era, tt.count, got.Era(), got.Count(), got.Valid())
		}
	}
}

// A raised era is above every count of the one before.
func TestErasOrderTokens(t *testing.T) {
	last := fence.Token(0)
	for era := range uint64(4) {
		for _, count := range []uint64{1, 2, fence.MaxCount - 1, fence.MaxCount} {
			token, err := fence.NewToken(era, count)
			if err != nil || token <= last {
				t.Errorf("era %d, count %d: %v, %v after %v", era, count, token, err, last)
			}
			last = token
		}
	}
}

func TestParseToken(t *testing.T) {
	for text, want := range map[string]fence.Token{
		"1":                   1,
		"42":                  42,
		"0000000000000000042": 42,
		"281474976710657":     1<<48 + 1,
		"9223372036854775807": fence.MaxToken,
		// refused:
		"":                     0,
		"0":                    0,
		"0000000000000000000":  0,
		"00000000000000000042": 0, // 20 digits
		"9223372036854775808":  0,
		"9999999999999999999":  0,
		"281474976710656":      0, // era 1, count 0
		"-1":                   0,
		"+1":                   0,
		" 1":                   0,
		"1 ":                   0,
		"1_000":                0,
		"0x1f":                 0,
		"1e3":                  0,
		"4２":                   0, // a digit of another script
	} {
		got, err := fence.ParseToken(text)
		if got != want || (err == nil) != (want != 0) || err != nil && !errors.Is(err, fence.ErrToken) {
			t.Errorf("ParseToken(%q) = %d, %v; want %d", text, uint64(got), err, uint64(want))
		}
		if err != nil && (len(err.Error()) > 200 || strings.Contains(err.Error(), "\n")) {
			t.Errorf("ParseToken(%q): the error is no short line: %v", text, err)
		}
	}
	if _, err := fence.ParseToken(strings.Repeat("9", 1<<20)); err == nil || len(err.Error()) > 200 {
		t.Errorf("ParseToken of a megabyte: %.300v", err)
	}
}

// The fixed form sorts as text as the tokens do as numbers.
func TestFixedSorts(t *testing.T) {
	last := ""
	for _, token := range []fence.Token{1, 9, 10, 99, 1 << 47, 1<<48 + 1, 1<<53 + 1, fence.MaxToken} {
		fixed := token.Fixed()
		if len(fixed) != 19 || fixed <= last {
			t.Errorf("%s after %s", fixed, last)
		}
		last = fixed
	}
}

func TestTokenInJSON(t *testing.T) {
	type doc struct {
		Token fence.Token `json:"token"`
	}
	for _, tt := range []struct {
		token fence.Token
		json  string
	}{
		{0, `{"token":"0"}`},
		{42, `{"token":"42"}`},
		{1<<53 + 1, `{"token":"9007199254740993"}`}, // a JSON number would be rounded
		{fence.MaxToken, `{"token":"9223372036854775807"}`},
	} {
		text, err := json.Marshal(doc{tt.token})
		if err != nil || string(text) != tt.json {
			t.Errorf("%v marshals to %s, %v; want %s", tt.token, text, err, tt.json)
		}
		var back doc
		if err := json.Unmarshal([]byte(tt.json), &back); err != nil || back.Token != tt.token {
			t.Errorf("%s unmarshals to %v, %v", tt.json, back.Token, err)
		}
	}
	for _, invalid := range []fence.Token{1 << 48, 1 << 63, 1<<64 - 1} {
		if text, err := json.Marshal(doc{invalid}); !errors.Is(err, fence.ErrToken) {
			t.Errorf("%d marshals to %s, %v; want ErrToken", uint64(invalid), text, err)
		}
	}
	for _, text := range []string{`{"token":42}`, `{"token":"-1"}`, `{"token":""}`, `{"token":"00"}`, `{"token":"9223372036854775808"}`} {
		back := doc{Token: 7}
		if err := json.Unmarshal([]byte(text), &back); err == nil || back.Token != 7 {
			t.Errorf("%s unmarshals to %v, %v; want an error, and the old token", text, back.Token, err)
		}
	}
}

// FuzzParseToken: what is accepted is valid, and is one of the two texts that
// this package writes, but for leading zeros.
func FuzzParseToken(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "42", "0000000000000000042", "9223372036854775807", "9223372036854775808", "281474976710656", "+1", "1_0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := fence.ParseToken(text)
		if err != nil {
			if token != 0 || !errors.Is(err, fence.ErrToken) {
				t.Fatalf("ParseToken(%q) = %v, %v", text, token, err)
			}
			return
		}
		if !token.Valid() || strings.TrimLeft(text, "0") != token.String() || len(text) > len(token.Fixed()) {
			t.Fatalf("ParseToken(%q) = %v", text, token)
		}
		for _, form := range []string{token.String(), token.Fixed()} {
			if back, err := fence.ParseToken(form); err != nil || back != token {
				t.Fatalf("ParseToken(%q) = %v, %v; want %v", form, back, err, token)
			}
		}
		if again, err := fence.NewToken(token.Era(), token.Count()); err != nil || again != token {
			t.Fatalf("NewToken(%d, %d) = %v, %v; want %v", token.Era(), token.Count(), again, err, token)
		}
	})
}

// FuzzTokenUnmarshalText: what is accepted is written back the same, but for
// leading zeros; what is refused changes nothing.
func FuzzTokenUnmarshalText(f *testing.F) {
	for _, seed := range []string{"", "0", "00", "1", "042", "9223372036854775807"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		token := fence.Token(7)
		if err := token.UnmarshalText(text); err != nil {
			if token != 7 || !errors.Is(err, fence.ErrToken) {
				t.Fatalf("UnmarshalText(%q) left %v, %v", text, token, err)
			}
			return
		}
		back, err := token.MarshalText()
		if err != nil || string(back) != string(text) && string(back) != strings.TrimLeft(string(text), "0") {
			t.Fatalf("UnmarshalText(%q), and back: %q, %v", text, back, err)
		}
	})
}
