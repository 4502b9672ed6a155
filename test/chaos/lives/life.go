package lives

import "fmt"

// Kind says whose life it is.
type Kind int64

// The kinds.
const (
	Command    Kind = 1 // what elect run has started: the first process of a family
	Descendant Kind = 2 // what such a one, or a guarded program, has started
	Library    Kind = 3 // a tenure of a program that embeds the library
	Guarded    Kind = 4 // the same, of a program that is under a keeper
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Command:
		return "command"
	case Descendant:
		return "descendant"
	case Library:
		return "library"
	case Guarded:
		return "guarded"
	}
	return fmt.Sprintf("kind %d", int64(k))
}

// MarshalText writes the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a name.
func (k *Kind) UnmarshalText(text []byte) error {
	for _, kind := range []Kind{Command, Descendant, Library, Guarded} {
		if string(text) == kind.String() {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("lives: kind %.40q; want command, descendant, library or guarded", text)
}

// Checked reports whether lives of this kind are stamped by Term.Check: by a
// program that knows that it leads. The others are stamped by processes that do not
// know, and that a keeper has to kill.
func (k Kind) Checked() bool { return k == Library || k == Guarded }

// Life is one life, as its process saw it. Times are as [Now] reads them.
type Life struct {
	Token  int64 `json:"token"`
	Pid    int64 `json:"pid"`
	Keeper int64 `json:"keeper,omitempty"` // the parent of the first process of a family, and of a guarded program; 0 of others
	Node   int64 `json:"node"`             // the node's number, from 0; -1 if it was given none
	Kind   Kind  `json:"kind"`
	Key    int64 `json:"key,omitempty"` // of a group: which of its keys, by number
	Start  int64 `json:"start"`
	Last   int64 `json:"last"` // of its last stamp

	// Paused and Resumed are the stamps before and after the longest time without
	// one, if that was longer than [Gap]; both are 0 otherwise. A process that was
	// frozen, and is killed when it goes on, has lived from Start to Paused and
	// again from Resumed to Last.
	Paused  int64 `json:"paused,omitempty"`
	Resumed int64 `json:"resumed,omitempty"`

	// Gaps are the latest [Gaps] times without a stamp that were longer than [Gap],
	// and the longest, by when they began. [Ledger.Since] leaves them out.
	Gaps []Pause `json:"gaps,omitempty"`

	// Number is that of its slot, from 0, in the order in which they were claimed.
	Number int `json:"number"`
}

// Pause is a time without a stamp, from the one before it to the one after it.
type Pause struct {
	Paused  int64 `json:"paused"`
	Resumed int64 `json:"resumed"`
}
