package fence

import (
	"fmt"
	"strings"
)

// Shown is what a leader shows with a request: its token, and the resource that it wants
// to write to. Its text is RESOURCE;TOKEN, as in "orders;42": what HTTP headers and the
// metadata of gRPC carry.
type Shown struct {
	Resource Resource
	Token    Token
}

// ParseShown reads what [Shown.String] wrote. Its errors match [ErrResource] or
// [ErrToken]. Leading zeros are accepted ([Token.Fixed]), spaces and lists are not.
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
