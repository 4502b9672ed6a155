package group

import (
	"fmt"
	"slices"
)

var inputNames = [...]string{
	Receive: "receive", Closed: "closed", Fire: "fire", Begin: "begin", Opened: "opened", Dead: "dead", Moves: "moves", Resign: "resign",
	Start: "start", Choose: "choose", Returned: "returned", Leave: "leave", Led: "led", Unseen: "unseen",
}

// String returns the input's name, such as receive.
func (k InputKind) String() string {
	if k == 0 || int(k) >= len(inputNames) {
		return fmt.Sprintf("unknown-%d", uint8(k))
	}
	return inputNames[k]
}

// MarshalText implements encoding.TextMarshaler.
func (k InputKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *InputKind) UnmarshalText(text []byte) error {
	i := slices.Index(inputNames[1:], string(text))
	if i < 0 {
		return fmt.Errorf("input %q; want one of %v", text, inputNames[1:])
	}
	*k = InputKind(i + 1)
	return nil
}
