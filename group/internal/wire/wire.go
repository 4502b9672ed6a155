// Package wire is what members and the coordinator of a group write to each other: frames of a bounded size, and in them
// the messages of package internal/protocol/group and those of the runtime around its machines.
//
// A frame is its length in four bytes, big-endian and without these, a kind in one byte, and a body of at most
// [MaxFrame] less one. What does not fit into one frame is cut into pieces, in order and never mixed with those of
// another; polls and answers may come between two of them. Lists of keys are sorted, and each key is written as the
// length of what it shares with the one before and the rest.
//
// Decoding trusts nothing: sizes are bounded before memory is taken, and what is left over, or not valid, is an error.
// The functions may be called by any number of goroutines; a [Reader] belongs to one.
package wire

import (
	"github.com/electd/elect/internal/protocol/group"
)

// Version is that of this format. Both ends of a connection have the same one.
const Version = 2

// Bounds.
const (
	MaxFrame = 256 << 10 // of a frame without its length
	MaxWhole = 64 << 20  // of what was cut into pieces
	MaxHello = 4 << 10   // of a frame before both ends know each other

	maxKey      = 128
	maxAddr     = 1 << 10
	maxText     = 64 << 10
	maxKeys     = 1 << 21   // in one list
	maxSpread   = 192 << 20 // bytes of the keys of one message, written out
	maxSessions = 1 << 16
	maxEntries  = 1 << 18
)

// Packet is one of what its fields point to.
type Packet struct {
	Hello   *Hello
	Welcome *Welcome
	Message *group.Message
	Side    *Side
}

// Urgent reports whether a packet overtakes others: renewals go before everything else.
func (p *Packet) Urgent() bool {
	return p.Message != nil && (p.Message.Type == group.Poll || p.Message.Type == group.Answer)
}

// Size is about how many bytes a packet has, so that queues can be bounded without writing it.
func (p *Packet) Size() int {
	n := 64
	if m := p.Message; m != nil {
		n += 24 * (len(m.Held) + len(m.Overruns) + len(m.Wants) + len(m.Unwants))
		for i := range m.Held {
			n += len(m.Held[i].State)
		}
		if m.Registry != nil {
			n += 64 * len(m.Registry.Sessions)
		}
	}
	if s := p.Side; s != nil {
		n += len(s.Body) + 96*len(s.Entries)
		for i := range s.Entries {
			n += len(s.Entries[i].Metadata)
		}
	}
	return n
}

// Hello is a member's first frame.
type Hello struct {
	Version uint64
	Group   string
	ID      string
	Keys    uint64 // how many shards it knows
	Digest  uint64 // of them
	Bits    uint64
	// Control: it is no member, and only asks, or is the witness of a member that is dead.
	Control bool
	// Admitted: a coordinator has admitted it, and its claim is live.
	Admitted bool
	// Addr is where it can be reached as a coordinator; "" if it never is one.
	Addr string
}

// Welcome answers a Hello.
type Welcome struct {
	Version uint64
	ID      string // of the member that answers
	Process string // its, as the coordinator's candidacy shows it
	Refused string // why it does not take this one; "" if it does
	Misfit  bool   // it coordinates, and what it does not take is the settings of this one
}

// SideKind is what a [Side] is about.
type SideKind uint8

// The kinds of Side.
const (
	_          SideKind = iota
	Call                // a request [Call, Method, Body]
	Reply               // its answer [Call, Code and Body]
	WatchKeys           // the sender wants to know who holds Entries' keys, and each change
	Unwatch             // and does not any more
	States              // who holds keys now
	Announce            // what the holder shows beside itself
	Loads               // what keys cost the sender
	AskRelease          // the coordinator asks a holder to give a key up [Entries]
	Places              // where coordinators are, or may be: Entries with a Member and its address as Metadata
)

// Side is a message of the runtime around the machines.
type Side struct {
	Kind    SideKind
	Call    uint64
	Method  string
	Code    string // of a Reply that is an error
	Body    []byte // JSON
	Entries []Entry
}

// Entry is what a Side says of a key.
type Entry struct {
	Key      string
	Member   string // the holder; "" is nobody
	Token    group.Token
	Since    int64  // when it began: Unix time in nanoseconds, by the holder's wall clock; negative: Member is not known yet
	Metadata []byte // JSON; nil is none
	Load     float64
}
