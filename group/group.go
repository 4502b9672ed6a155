package group

import (
	"context"
	"iter"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
)

// Group is one member of a group.
type Group struct{}

// Join makes this process a member of the group whose coordinator is the leader of election, and lets it stand in that
// election. The Group owns the election, unless Join returns an error. ctx bounds the call only. Join does not wait for
// a coordinator.
func Join(ctx context.Context, election *elect.Election, cfg Config) (*Group, error) {
	panic("not yet")
}

// ID is this member's.
func (g *Group) ID() string { panic("not yet") }

// Leave gives all keys up in good order, when their work has returned, and then resigns as coordinator. back is how long
// the keys are kept for a member with the same id, because it will be back: 0 frees them at once. When ctx ends first,
// the rest lapses by itself. Leave then closes the Group.
func (g *Group) Leave(ctx context.Context, back time.Duration) error { panic("not yet") }

// Close is Leave with 5 s and without a return.
func (g *Group) Close() error { panic("not yet") }

// Elector is this member's part in the election called name, which is a key of the group that is not in [Config].Keys.
// The error of a bad name is that of Campaign. Closing it leaves the Group as it is.
func (g *Group) Elector(name string) driver.Elector { panic("not yet") }

// Status asks the coordinator how the group is.
func (g *Group) Status(ctx context.Context) (Status, error) { panic("not yet") }

// Watch yields the status, and again when it has changed. The end of ctx yields its cause, once and last.
func (g *Group) Watch(ctx context.Context) iter.Seq2[Status, error] { panic("not yet") }

// Lookup asks the coordinator who holds a key. Without a holder it is [elect.ErrNoLeader].
func (g *Group) Lookup(ctx context.Context, key string) (elect.Leader, error) { panic("not yet") }

// Drain empties the member with that id, or lets it have keys again if on is false. "" is this member.
func (g *Group) Drain(ctx context.Context, id string, on bool) error { panic("not yet") }

// Move moves a key to the member with the id to. It returns when the holder was asked to give it up. It refuses what
// cannot be with [elect.ErrIneligible].
func (g *Group) Move(ctx context.Context, key, to string) error { panic("not yet") }

// Status is the state of a group as its coordinator sees it.
type Status struct {
	Group       string      `json:"group"`
	Coordinator string      `json:"coordinator"` // the id of that member
	Token       elect.Token `json:"token"`       // of its term
	Covering    bool        `json:"covering,omitempty"` // it waits for members of an earlier coordinator before it hands out free keys
	Members     []Member    `json:"members"`
	Keys        int         `json:"keys"`   // that it knows
	Held        int         `json:"held"`   // of these
	Moving      int         `json:"moving"` // of these
	Version     uint64      `json:"version"`
}

// Member is a member as the coordinator sees it.
type Member struct {
	ID       string `json:"id"`
	Address  string `json:"address,omitempty"` // where its connection comes from
	Attached bool   `json:"attached"`
	Admitted bool   `json:"admitted"` // it can get keys
	Draining bool   `json:"draining,omitempty"`
	Weight   int    `json:"weight"`
	Zone     string `json:"zone,omitempty"`
	Keys     int    `json:"keys"` // that it holds
}

// Placement decides who gets which key. It is used by one goroutine.
type Placement interface{}

// Opener returns an opener of elections over groups: of URLs whose scheme is group+ and a scheme that inner opens, such as
// group+file:/var/lib/elect. The elections of one process with one URL share a member, whose coordinator is elected at
// the inner URL under the group's name. Parameters of the group begin with group-: group-name, group-listen,
// group-advertise, group-promise, group-insecure.
func Opener(inner driver.Opener) driver.Opener { panic("not yet") }
