package groupbench

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strconv"

	"github.com/electd/elect/group"
)

// What a node is told.
const (
	doStand   = "stand"  // lead the keys: all of them in a group's shards, else this node's own
	doSecond  = "second" // stand for the keys of the node before this one, too, so that each has two candidates
	doYield   = "yield"  // give all up, and want none
	doCount   = "count"
	doTrouble = "trouble" // say why not all are led
	doLog     = "log"     // what has happened since the last time
	doHeap    = "heap"    // collect garbage, and say what is left
	doStatus  = "status"  // of the group
	doMove    = "move"    // move a key of the group to any other node
	doGive    = "give"    // give up one key that is led here, and stand for it again
	doLeave   = "leave"   // give all up and leave, in good order
)

// order is one line that a node reads.
type order struct {
	Do  string `json:"do"`
	Key int    `json:"key,omitempty"`
}

// answer is one line that a node writes: one when it is ready, and one for each order.
type answer struct {
	PID         int           `json:"pid"`
	Parent      int           `json:"parent"` // of a program with a guardian: its keeper
	Coordinates bool          `json:"coordinates,omitempty"`
	Held        int           `json:"held"`
	Begun       int           `json:"begun"` // how many terms have begun in its life
	Heap        uint64        `json:"heap,omitempty"`
	Log         []byte        `json:"log,omitempty"` // events, as encode writes them
	Status      *group.Status `json:"status,omitempty"`
	Error       string        `json:"error,omitempty"`
}

// event is the begin or the end of one term of one key.
type event struct {
	Key   int32
	Ended bool
	Lost  bool  // it ended because the claim has run out
	At    int64 // clock.Boot: of the begin after it, of the end before the key is given up
	Token uint64
}

func encode(all []event) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, all) // it never fails for fixed sizes
	return b.Bytes()
}

func decode(b []byte) ([]event, error) {
	all := make([]event, len(b)/binary.Size(event{}))
	return all, binary.Read(bytes.NewReader(b), binary.LittleEndian, all)
}

// byTime orders events by their times. An end is before a begin at the same instant.
func byTime(a, b event) int {
	if a.At == b.At && a.Ended != b.Ended {
		if a.Ended {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.At, b.At)
}

// name is that of a key.
func name(key int) string { return strconv.Itoa(key) }

func number(name string) int {
	n, _ := strconv.Atoi(name)
	return n
}
