package register

import (
	"encoding/json"
	"fmt"

	"github.com/electd/elect/fence"
)

// line is everything that is written in one line: a request, an answer, and what
// client and server write down about them.
type line struct {
	Client string `json:"client,omitempty"`
	N      int64  `json:"n,omitempty"`

	Op       Op     `json:"op,omitempty"`
	Key      int64  `json:"key,omitempty"`
	Token    int64  `json:"token,omitempty"`
	Value    string `json:"value,omitempty"`
	Position uint64 `json:"seq,omitempty"`
	Call     int64  `json:"call,omitempty"` // a client's log only

	Return  int64          `json:"return,omitempty"` // logs only
	Result  Result         `json:"result,omitempty"`
	Highest int64          `json:"highest,omitempty"`
	Seen    string         `json:"seen,omitempty"`
	Last    fence.Sequence `json:"last,omitzero"`

	Why    string `json:"why,omitempty"`    // of a failure, for people
	Closed int64  `json:"closed,omitempty"` // the server's log only: when it had ended all connections
}

// bytes is the line with its end.
func (l line) bytes() []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic("register: " + err.Error()) // strings and numbers
	}
	return append(text, '\n')
}

func parse(text []byte) (l line, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("register: the line %.100q: %w", text, err)
	}
	return l, nil
}

// check says what is wrong with a request.
func (l *line) check() error {
	switch {
	case l.Client == "" || l.N < 1:
		return fmt.Errorf("register: client %q, request %d; want a name, and a number from 1", l.Client, l.N)
	case l.Op != Write && l.Op != Read && l.Op != Peek && l.Op != Stream:
		return fmt.Errorf("register: operation %.20q; want write, read, peek or stream", l.Op)
	case (l.Op == Write || l.Op == Stream) && l.Token < 1:
		return fmt.Errorf("register: token %d; want one from 1", l.Token)
	case l.Op == Write && l.Value == "":
		return fmt.Errorf("register: a write without a value")
	case l.Op == Stream && l.Position < 1:
		return fmt.Errorf("register: position %d of a sequence; want one from 1", l.Position)
	}
	return nil
}
