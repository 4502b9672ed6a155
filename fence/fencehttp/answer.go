package fencehttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/electd/elect/fence"
)

// statuses are the codes of answers. Ended is for a proxy's answer to a request that was admitted and then cut.
var statuses = map[fence.Result]int{
	fence.Stale:     http.StatusPreconditionFailed,
	fence.Missing:   http.StatusPreconditionRequired,
	fence.Malformed: http.StatusBadRequest,
	fence.Foreign:   http.StatusMisdirectedRequest,
	fence.Unclaimed: http.StatusForbidden,
	fence.Busy:      http.StatusServiceUnavailable,
	fence.Failed:    http.StatusServiceUnavailable,
	fence.Ended:     http.StatusBadGateway,
}

// answer is the body of an answer.
type answer struct {
	Result   fence.Result   `json:"result,omitempty"`
	Resource fence.Resource `json:"resource,omitempty"`
	Shown    fence.Token    `json:"shown,omitempty"`
	Highest  fence.Token    `json:"highest,omitempty"`
	InFlight *int           `json:"in_flight,omitempty"` // for the status only
	Error    string         `json:"error,omitempty"`
}

func (a answer) write(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if a.Result != "" {
		w.Header().Set(ResultHeader, string(a.Result))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // the client may be gone
}

// readAnswer returns the error of a guard's own answer, and nil for any other answer: a 412 may be the upstream's,
// about an entity tag. A refusal as stale that does not match what was shown is an unknown outcome.
func readAnswer(resp *http.Response, host string, shown fence.Shown) error {
	values := resp.Header.Values(ResultHeader)
	if len(values) == 0 {
		return nil
	}
	result := fence.Result(values[0])
	status, ok := statuses[result]
	if len(values) > 1 || !ok || status != resp.StatusCode {
		return nil
	}
	if result == fence.Stale {
		highest, err := FromHeader(resp.Header)
		if err != nil || highest.Resource != shown.Resource || highest.Token <= shown.Token {
			return fmt.Errorf("%w: %s calls %s stale and shows %.200q", fence.ErrUnknownOutcome, host, shown, resp.Header.Get(Header))
		}
		return &fence.StaleError{Shown: shown.Token, Highest: highest.Token}
	}
	err := result.Err()
	if result == fence.Failed {
		err = errFailed
	}
	var a answer
	_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&a) // for its text only
	return fmt.Errorf("%w: %s answers %d: %.200q", err, host, resp.StatusCode, a.Error)
}

// errFailed replaces the mark's own error for clients, because that may name hosts. Nothing of a request was applied.
// For a claim that is not known.
var errFailed = errors.New("the fencing mark could not be read or raised")
