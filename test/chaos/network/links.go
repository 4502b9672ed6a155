//go:build linux

package network

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Way is from one node to another, by their numbers from 0.
type Way struct{ From, To int }

// String is FROM-TO.
func (w Way) String() string { return strconv.Itoa(w.From) + "-" + strconv.Itoa(w.To) }

// MarshalText is String, so that Links can be written as JSON.
func (w Way) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (w *Way) UnmarshalText(text []byte) error {
	from, to, ok := strings.Cut(string(text), "-")
	i, err := strconv.Atoi(from)
	j, err2 := strconv.Atoi(to)
	if !ok || err != nil || err2 != nil || i < 0 || j < 0 || (Way{i, j}).String() != string(text) {
		return fmt.Errorf("network: %q is no way; want FROM-TO, as 0-1", text)
	}
	w.From, w.To = i, j
	return nil
}

// Link is the state of one way between two nodes. The zero Link is perfect.
//
// Where packets are cut or lost, those of TCP that acknowledge others are too. So between
// namespaces a deaf node is itself heard for no longer than TCP sends without an answer: for its
// first retransmission timeout, 200 ms and more, and then only old data comes again. Behind proxies
// it is heard on.
type Link struct {
	Cut    bool          `json:"cut,omitempty"`    // nothing arrives, and no error is returned
	Loss   int           `json:"loss,omitempty"`   // per cent of the packets that do not arrive, 0 to 100
	Delay  time.Duration `json:"delay,omitempty"`  // what each byte takes longer; in JSON nanoseconds
	Jitter time.Duration `json:"jitter,omitempty"` // additional random delay, at most; connections stay in order
}

// check returns what is wrong with a link, for any network.
func (k Link) check() error {
	switch {
	case k.Loss < 0 || k.Loss > 100:
		return fmt.Errorf("network: a loss of %d per cent; want 0 to 100", k.Loss)
	case k.Delay < 0 || k.Jitter < 0:
		return fmt.Errorf("network: a delay of %v and a jitter of %v; want none below 0", k.Delay, k.Jitter)
	}
	return nil
}

// String names the faults.
func (k Link) String() string {
	var all []string
	if k.Cut {
		all = append(all, "cut")
	}
	if k.Loss != 0 {
		all = append(all, strconv.Itoa(k.Loss)+"% lost")
	}
	if k.Delay != 0 || k.Jitter != 0 {
		all = append(all, fmt.Sprintf("%v to %v slow", k.Delay, k.Delay+k.Jitter))
	}
	if len(all) == 0 {
		return "perfect"
	}
	return strings.Join(all, ", ")
}

// Links is the state of all links of a network. A way that is not in it is
// perfect.
type Links map[Way]Link

// Connected reports whether anything that one node sends can arrive at another.
// A node always reaches itself.
func (l Links) Connected(from, to int) bool {
	k := l[Way{from, to}]
	return from == to || !k.Cut && k.Loss < 100
}

// check returns what a network cannot do of this.
func (l Links) check(w Network) error {
	for way, k := range l {
		if err := pair(w.Size(), way.From, way.To); err != nil {
			return err
		}
		if err := w.Can(k); err != nil {
			return fmt.Errorf("%w (from node %d to node %d)", err, way.From, way.To)
		}
	}
	return nil
}

// pair returns what is wrong with two nodes of n.
func pair(n, a, b int) error {
	if a == b || min(a, b) < 0 || max(a, b) >= n {
		return fmt.Errorf("network: between node %d and node %d there is no link; want two different ones of 0 to %d", a, b, n-1)
	}
	return nil
}
