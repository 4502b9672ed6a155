package naive

import (
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// Config configures a lock. The zero value of each field is its documented default.
type Config struct {
	// TTL is how long a lock lives that is not renewed, 100 ms to 1 h; 0 is DefaultTTL. A holder renews every third of
	// it. For an advisory lock it is how long the server keeps the session of a client that it cannot reach.
	TTL time.Duration `json:"ttl"`
	// Token keeps a number beside the lock that rises with each acquisition, in the same step, and is the holder's
	// token. Only for SetNX and Update.
	Token bool `json:"token"`
	// ClientClock compares the row with the time of the client, and not of the database. Only for Update. The simulated
	// world has no wall clock: the participant's clock stands in for it.
	ClientClock bool `json:"client_clock"`
}

// DefaultTTL is the default of [Config].TTL.
const DefaultTTL = 10 * time.Second

// WithDefaults returns c with its defaults, or an error if TTL is out of range.
func (c Config) WithDefaults() (Config, error) {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.TTL < 100*time.Millisecond || c.TTL > time.Hour {
		return c, fmt.Errorf("ttl: %v; want 100ms to 1h", c.TTL)
	}
	return c, nil
}

// retry is the time between two attempts.
func (c *Config) retry() time.Duration { return c.TTL / 20 }

// belief is what a client believes of the lock, and what it is asked to do.
type belief struct {
	held    bool // between the orders Elected and Stop
	joining bool // its work has not returned
	token   uint64
	end     protocol.Instant // of what it believes
	now     protocol.Reading // of the last step: a client compares no two clocks
	due     protocol.Instant // of the next request

	candidate, sick, paused bool
}

// stands reports whether the client wants the lock.
func (b *belief) stands() bool { return b.candidate && !b.sick && !b.paused && !b.joining }

// begin takes the time of an input, and stops the work if the time of the lock is over.
func (b *belief) begin(in *protocol.Input, fx *protocol.Effects) {
	if b.now = in.Now; in.Kind == protocol.Boot {
		b.due = protocol.Never
	}
	if b.held && in.Now.Boot >= b.end {
		b.stop(protocol.Lapsed, fx)
	}
}

// lead makes the client believe until end that it leads.
func (b *belief) lead(end protocol.Instant, token uint64, fx *protocol.Effects) {
	if end <= b.now.Boot {
		return
	}
	if b.end = end; !b.held {
		b.held, b.token = true, token
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Elected, Token: token}, protocol.Order{Kind: protocol.Lead, Token: token})
	}
}

func (b *belief) stop(why protocol.Reason, fx *protocol.Effects) {
	if b.held {
		fx.Orders = append(fx.Orders, protocol.Order{Kind: protocol.Stop, Token: b.token, Reason: why})
		b.held, b.joining, b.token = false, true, 0
	}
}

// do carries out a command. It reports whether the lock has to be released, because the work has returned.
func (b *belief) do(c *protocol.Command, fx *protocol.Effects) (release bool) {
	switch c.Verb {
	case protocol.Campaign:
		b.candidate = true
	case protocol.Withdraw:
		b.candidate = false
		b.stop(protocol.Withdrawn, fx)
	case protocol.Recover:
		b.sick = false
	case protocol.Sicken:
		b.sick = true
		b.stop(protocol.Unhealthy, fx)
	case protocol.Resume:
		b.paused = false
	case protocol.Pause:
		b.paused = true
		b.stop(protocol.Paused, fx)
	case protocol.Resign:
		b.stop(protocol.Recalled, fx)
	case protocol.Joined:
		b.joining = false
		return true
	}
	return false
}

// NextFire implements [protocol.Machine].
func (b *belief) NextFire() protocol.Instant {
	if b.held {
		return min(b.due, b.end)
	}
	return b.due
}

// View implements [protocol.Machine].
func (b *belief) View() protocol.View {
	switch {
	case b.held:
		return protocol.View{Role: protocol.Leader, Token: b.token, Elected: true, Active: true, LeaseEnd: b.end, Read: b.now}
	case b.joining:
		return protocol.View{Role: protocol.Fencing}
	}
	return protocol.View{Role: protocol.Follower}
}

func (b *belief) state(c *protocol.Coder) {
	c.Bools(&b.held, &b.joining, &b.candidate, &b.sick, &b.paused)
	c.Uints(&b.token)
	c.Instants(&b.end, &b.due)
	c.Reading(&b.now)
}
