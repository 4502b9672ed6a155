package fence

import (
	"errors"
	"fmt"
	"strconv"
)

// Token orders the leaders of one election: each later term has a strictly greater token. A leader shows it with each
// write, and the resource refuses one that is smaller than the greatest it has seen.
//
// A token is an integer from 1 to 2^63-1, which fits a SQL BIGINT: 15 bits of era above 48 bits of count. The count
// comes from the back end. The era is configuration: it is 0 until an operator restores a back end from a backup, or
// makes it anew, and raises it. The zero Token is no token.
type Token uint64

const (
	countBits = 48

	// MaxCount is the greatest count that a token can carry, 2^48-1.
	MaxCount = 1<<countBits - 1
	// MaxEra is the greatest era that a token can carry, 2^15-1.
	MaxEra = 1<<15 - 1
	// MaxToken is the greatest token, 2^63-1.
	MaxToken Token = 1<<63 - 1

	fixedDigits = 19 // of 2^63-1
)

// ErrToken is matched by every failure to make or parse a token or a sequence.
var ErrToken = errors.New("invalid fencing token")

// NewToken returns the token of a count within an era. It refuses a count of 0 or above [MaxCount], and an era above
// [MaxEra].
func NewToken(era, count uint64) (Token, error) {
	switch {
	case era > MaxEra:
		return 0, fmt.Errorf("%w: era %d is above %d", ErrToken, era, uint64(MaxEra))
	case count == 0:
		return 0, fmt.Errorf("%w: a count starts at 1", ErrToken)
	case count > MaxCount:
		return 0, fmt.Errorf("%w: count %d is above %d; raise the era and start the count again", ErrToken, count, uint64(MaxCount))
	}
	return Token(era<<countBits | count), nil
}

// ParseToken reads what [Token.String] or [Token.Fixed] writes: 1 to 19 decimal digits, from 1 to 2^63-1.
func ParseToken(s string) (Token, error) {
	if s == "" {
		return 0, fmt.Errorf("%w: empty; want a decimal number from 1 to %d", ErrToken, uint64(MaxToken))
	}
	if len(s) > fixedDigits {
		return 0, fmt.Errorf("%w: %d characters; want at most %d decimal digits", ErrToken, len(s), fixedDigits)
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%w: %q; want decimal digits only", ErrToken, s)
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if t := Token(n); err == nil && t.Valid() {
		return t, nil
	}
	return 0, fmt.Errorf("%w: %s; want a number from 1 to %d whose lower %d bits are not all zero", ErrToken, s, uint64(MaxToken), countBits)
}

// Valid reports whether t is a token: from 1 to 2^63-1, with a count above 0.
func (t Token) Valid() bool { return t <= MaxToken && t.Count() != 0 }

// Era returns the upper 15 bits.
func (t Token) Era() uint64 { return uint64(t) >> countBits }

// Count returns the lower 48 bits.
func (t Token) Count() uint64 { return uint64(t) & MaxCount }

// String returns t as a plain decimal number.
func (t Token) String() string { return strconv.FormatUint(uint64(t), 10) }

// Fixed returns t as 19 decimal digits with leading zeros, for places that compare strings, and for Lua, whose numbers
// are exact only below 2^53.
func (t Token) Fixed() string { return fmt.Sprintf("%0*d", fixedDigits, uint64(t)) }

// MarshalText writes the decimal form: JSON carries a token as a string, because many readers round numbers above 2^53.
// It refuses a value that is neither a token nor 0.
func (t Token) MarshalText() ([]byte, error) {
	if t != 0 && !t.Valid() {
		return nil, fmt.Errorf("%w: %d; want 0 for none, or a number from 1 to %d whose lower %d bits are not all zero", ErrToken, uint64(t), uint64(MaxToken), countBits)
	}
	return strconv.AppendUint(nil, uint64(t), 10), nil
}

// UnmarshalText reads what MarshalText writes. "0" is accepted as no token.
func (t *Token) UnmarshalText(b []byte) error {
	if string(b) == "0" {
		*t = 0
		return nil
	}
	v, err := ParseToken(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}
