package fence

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Sequence is the number of a leader's message: it orders messages by token, then by position within that leader's
// term. The zero Sequence is before every other.
type Sequence struct {
	Token    Token
	Position uint64 // from 1 within a term
}

// Compare returns -1, 0 or +1 as s is before, equal to or after o.
func (s Sequence) Compare(o Sequence) int {
	return cmp.Or(cmp.Compare(s.Token, o.Token), cmp.Compare(s.Position, o.Position))
}

// String returns token and position with a slash between: "42/7".
func (s Sequence) String() string {
	return s.Token.String() + "/" + strconv.FormatUint(s.Position, 10)
}

// ParseSequence reads exactly what [Sequence.String] writes.
func ParseSequence(text string) (Sequence, error) {
	head, tail, ok := strings.Cut(text, "/")
	if !ok {
		return Sequence{}, fmt.Errorf("%w: sequence %.50q; want TOKEN/POSITION, as in 42/7", ErrToken, text)
	}
	token, err := ParseToken(head)
	if err != nil {
		return Sequence{}, err
	}
	position, err := strconv.ParseUint(tail, 10, 64)
	s := Sequence{Token: token, Position: position}
	if err != nil || position == 0 || s.String() != text {
		return Sequence{}, fmt.Errorf("%w: sequence %.50q; want two decimal numbers from 1 without leading zeros, as in 42/7", ErrToken, text)
	}
	return s, nil
}

// MarshalText writes what [Sequence.String] does.
func (s Sequence) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote. "0/0", the zero Sequence, is
// accepted.
func (s *Sequence) UnmarshalText(b []byte) error {
	if string(b) == "0/0" {
		*s = Sequence{}
		return nil
	}
	v, err := ParseSequence(string(b))
	if err != nil {
		return err
	}
	*s = v
	return nil
}
