package group

import (
	"context"
	"time"

	"github.com/electd/elect"
)

// MaxState is the greatest size of what [Shard.HandOver] takes, in bytes.
const MaxState = 1 << 20

// Shard is one leadership of one key, from when it was assigned until its work has returned. It never revives.
type Shard struct{}

// Key is the shard's key.
func (s *Shard) Key() string { panic("not yet") }

// Token must accompany every write to a guarded resource. It is strictly greater in every later term of this key.
func (s *Shard) Token() elect.Token { panic("not yet") }

// Context ends when the key is to be given up, with a *[elect.LostError] as its cause.
func (s *Shard) Context() context.Context { panic("not yet") }

// Check returns nil while the key is proven to be held, by the clock, now. Call it before a side effect that cannot be
// fenced. It does no I/O. After the end it returns a *[elect.LostError].
func (s *Shard) Check() error { panic("not yet") }

// Remaining is how long the key is proven to be held from now on without another renewal; 0 once it has ended.
func (s *Shard) Remaining() time.Duration { panic("not yet") }

// State is what the last holder has handed over, or nil if it did not, or has died. It must not be changed.
func (s *Shard) State() []byte { panic("not yet") }

// HandOver leaves state for the next holder of the key. The last call before the work returns counts. It refuses more
// than [MaxState] bytes, and keeps the slice, which the caller must not change afterwards. The state is a hint: it is
// lost with the coordinator and with its holder.
func (s *Shard) HandOver(state []byte) error { panic("not yet") }

// Load tells placement what this key costs, in any unit that all members share. The default is 1.
func (s *Shard) Load(load float64) { panic("not yet") }

// Run holds keys of [Config].Keys, calls work for each of them in a goroutine of its own, and returns when ctx has ended,
// all work has returned and the keys were given up: the cause of ctx. One Run or Serve at a time is possible.
//
// The context of work ends when its key is to be given up, with a *[elect.LostError] as its cause, and the key is given
// up when work has returned. Work that returns by itself gives its key up; an error is logged. Another member may get the
// key then, or the same one again after a pause.
func (g *Group) Run(ctx context.Context, work func(ctx context.Context, s *Shard) error) error {
	panic("not yet")
}

// Serve is [Group.Run] without a goroutine for each key. One goroutine calls begin for each key that this member gets
// and end for each key that it has to give up; the key is given up when end has returned. Both must return quickly. A
// shard's Context is made when it is asked for.
func (g *Group) Serve(ctx context.Context, begin, end func(s *Shard)) error { panic("not yet") }
