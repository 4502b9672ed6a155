package fencehttp

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/electd/elect/fence"
)

const (
	// Header carries what a leader shows, RESOURCE;TOKEN, as in "orders;42". In the
	// refusal of a stale token it carries the greatest one, in the same form.
	Header = "Fencing-Token"

	// ResultHeader carries a [fence.Result] in the answers of a [Handler] that are
	// not those of the handler behind it.
	ResultHeader = "Fencing-Result"
)

// Shown is what a request shows, or an answer.
type Shown struct {
	Resource fence.Resource
	Token    fence.Token
}

// String returns the value of the header.
func (s Shown) String() string { return string(s.Resource) + ";" + s.Token.String() }

// Set puts the header in h, in place of any that is there.
func (s Shown) Set(h http.Header) { h.Set(Header, s.String()) }

// ParseShown reads the value of one header. Its errors match [fence.ErrResource] or
// [fence.ErrToken]. Leading zeros are accepted ([fence.Token.Fixed]), spaces and lists
// are not.
func ParseShown(value string) (Shown, error) {
	name, digits, ok := strings.Cut(value, ";")
	if !ok {
		return Shown{}, fmt.Errorf("%w: %s: %.50q; want RESOURCE;TOKEN, as in orders;42", fence.ErrToken, Header, value)
	}
	resource, err := fence.ParseResource(name)
	if err != nil {
		return Shown{}, err
	}
	token, err := fence.ParseToken(digits)
	if err != nil {
		return Shown{}, err
	}
	return Shown{resource, token}, nil
}

// FromHeader returns what the headers of a request show. No such header is
// [fence.ErrMissing]; several are malformed ([fence.ErrToken]), even if they are equal.
func FromHeader(h http.Header) (Shown, error) {
	switch values := h.Values(Header); len(values) {
	case 0:
		return Shown{}, fmt.Errorf("%w: want the header %s: RESOURCE;TOKEN", fence.ErrMissing, Header)
	case 1:
		return ParseShown(values[0])
	default:
		return Shown{}, fmt.Errorf("%w: %d headers %s; want one", fence.ErrToken, len(values), Header)
	}
}
