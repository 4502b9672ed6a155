package disk

import (
	"fmt"
	"maps"

	"github.com/electd/elect/internal/protocol"
)

// pinsFile is the content of the file pins.
type pinsFile struct {
	Format int                                `json:"format"`
	Pins   map[protocol.NodeID]protocol.DirID `json:"pins"`
}

// maxPins bounds the pins; there is one for each other voter.
const maxPins = 64

func encodePins(pins map[protocol.NodeID]protocol.DirID) ([]byte, error) {
	return seal(pinsFile{format, pins})
}

// decodePins reads what encodePins wrote.
func decodePins(text []byte) (map[protocol.NodeID]protocol.DirID, error) {
	var f pinsFile
	if err := unseal(text, &f); err != nil {
		return nil, err
	}
	for id := range f.Pins {
		if _, err := protocol.ParseNodeID(string(id)); err != nil {
			return nil, err
		}
	}
	if len(f.Pins) > maxPins {
		return nil, fmt.Errorf("%d pins; want at most %d", len(f.Pins), maxPins)
	}
	if f.Pins == nil {
		f.Pins = make(map[protocol.NodeID]protocol.DirID)
	}
	return f.Pins, nil
}

// Pins returns a copy of the pins: the directories by which the other voters are known.
func (d *Dir) Pins() map[protocol.NodeID]protocol.DirID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.pins)
}

// Pin makes durable by which directory a voter is known. It waits for the disk, unless the voter is already pinned. A
// voter that is pinned to another directory stays so, and the error names that directory.
func (d *Dir) Pin(id protocol.NodeID, dir protocol.DirID) error {
	if _, err := protocol.ParseNodeID(string(id)); err != nil {
		return err
	}
	if dir == (protocol.DirID{}) {
		return fmt.Errorf("pin of %s: its directory id is all zeros", id)
	}
	d.pinning <- struct{}{} // one at a time
	defer func() { <-d.pinning }()
	pins := d.Pins()
	switch old, ok := pins[id]; {
	case ok && old == dir:
		return nil
	case ok:
		return fmt.Errorf("pin of %s: it is known by the directory %s, and this is %s", id, old, dir)
	case len(pins) == maxPins:
		return fmt.Errorf("pin of %s: there are %d pins already", id, maxPins)
	}
	pins[id] = dir
	text, err := encodePins(pins)
	if err == nil {
		err = replace(d.at, pinsName, text)
	}
	if err != nil {
		return fmt.Errorf("%s: pin of %s: %w", d.path, id, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pins = pins
	return nil
}
