package fencehttp

import (
	"fmt"
	"net/http"

	"github.com/electd/elect/fence"
)

const (
	// Header carries what a leader shows, RESOURCE;TOKEN, as in "orders;42", and in a refusal as stale the greatest
	// token in the same form.
	Header = "Fencing-Token"

	// ResultHeader carries a [fence.Result] in the answers of a [Handler] itself.
	ResultHeader = "Fencing-Result"
)

// SetHeader puts what a leader shows into h, and replaces an earlier value.
func SetHeader(h http.Header, shown fence.Shown) { h.Set(Header, shown.String()) }

// FromHeader returns what the headers of a request show. Without the header the error is [fence.ErrMissing]; several,
// even if equal, are malformed ([fence.ErrToken]).
func FromHeader(h http.Header) (fence.Shown, error) {
	switch values := h.Values(Header); len(values) {
	case 0:
		return fence.Shown{}, fmt.Errorf("%w: want the header %s: RESOURCE;TOKEN", fence.ErrMissing, Header)
	case 1:
		return fence.ParseShown(values[0])
	default:
		return fence.Shown{}, fmt.Errorf("%w: %d headers %s; want one", fence.ErrToken, len(values), Header)
	}
}
