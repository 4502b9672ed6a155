package fence

import (
	"fmt"
	"strings"
)

// Shown is what a leader shows with a request. Its text in HTTP headers and in the metadata of gRPC is RESOURCE;TOKEN,
// as in "orders;42".
type Shown struct {
	Resource Resource
	Token    Token
}

// ParseShown reads what [Shown.String] writes. Its errors match [ErrResource] or [ErrToken]. Leading zeros are
// accepted, spaces and lists are not.
func ParseShown(text string) (Shown, error) {
	name, digits, ok := strings.Cut(text, ";")
	if !ok {
		return Shown{}, fmt.Errorf("%w: %.50q; want RESOURCE;TOKEN, as in orders;42", ErrToken, text)
	}
	resource, err := ParseResource(name)
	if err != nil {
		return Shown{}, err
	}
	token, err := ParseToken(digits)
	if err != nil {
		return Shown{}, err
	}
	return Shown{resource, token}, nil
}

// String returns RESOURCE;TOKEN.
func (s Shown) String() string { return string(s.Resource) + ";" + s.Token.String() }

// CheckShown returns [ErrResource] for a malformed name, [ErrMissing] without a token, [ErrToken] for an invalid one.
func CheckShown(resource Resource, token Token) error {
	if _, err := ParseResource(string(resource)); err != nil {
		return err
	}
	return checkToken(resource, token)
}

// checkToken is CheckShown for a resource with a valid name.
func checkToken(resource Resource, token Token) error {
	switch {
	case token == 0:
		return fmt.Errorf("%w: %s is guarded, and wants the token of the term that writes", ErrMissing, resource)
	case !token.Valid():
		return fmt.Errorf("%w: %d; want 1 to %d, with a count from 1", ErrToken, uint64(token), uint64(MaxToken))
	}
	return nil
}
