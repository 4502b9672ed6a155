package disk

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Pause is an operator's order that the node must not stand, until it is withdrawn.
type Pause struct {
	Paused bool
	By     string    // who gave it, for people; at most 256 bytes of UTF-8
	At     time.Time // when, by the wall clock of the node
}

// maxBy is the greatest length of Pause.By, in bytes.
const maxBy = 256

// pausedFile is the content of the file paused.
type pausedFile struct {
	Format int       `json:"format"`
	Paused bool      `json:"paused"`
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

func encodePause(p Pause) ([]byte, error) {
	if len(p.By) > maxBy || !utf8.ValidString(p.By) {
		p.By = fmt.Sprintf("%.50q", p.By) // a byte that is not UTF-8 takes four
	}
	return seal(pausedFile{format, p.Paused, p.By, p.At})
}

// decodePause reads what encodePause wrote.
func decodePause(text []byte) (Pause, error) {
	var f pausedFile
	if err := unseal(text, &f); err != nil {
		return Pause{}, err
	}
	if len(f.By) > maxBy || !utf8.ValidString(f.By) {
		return Pause{}, fmt.Errorf("who paused it has %d bytes; want at most %d of UTF-8", len(f.By), maxBy)
	}
	return Pause{f.Paused, f.By, f.At}, nil
}

// Pause returns the last value of SetPause; the zero Pause if there is none. If the file cannot be read the node
// counts as paused, because it may be, and the error says why. Pause waits for the disk.
func (d *Dir) Pause() (Pause, error) {
	text, err := read(d.at, pausedName, maxSealed)
	if err == nil && text == nil {
		return Pause{}, nil
	}
	var p Pause
	if err == nil {
		p, err = decodePause(text)
	}
	if err != nil {
		return Pause{Paused: true}, fmt.Errorf("%s: %s: %w; the node counts as paused until it is resumed", d.path, pausedName, err)
	}
	return p, nil
}

// SetPause makes durable whether the node is paused. One goroutine at a time may call it, and it waits for the disk.
// After an error either the earlier value counts, or that of this call.
func (d *Dir) SetPause(p Pause) error {
	text, err := encodePause(p)
	if err == nil {
		err = replace(d.at, pausedName, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.path, pausedName, err)
	}
	return nil
}

const pausedName = "paused"
