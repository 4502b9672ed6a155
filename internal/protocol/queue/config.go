package queue

import (
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/internal/mutant"
)

// Dialect is the kind of store that the queue is in.
type Dialect uint8

// The dialects.
const (
	_ Dialect = iota
	// Etcd: sessions are leases, renewed by KeepAlive asks and ended by the server's clock alone;
	// Enter can be repeated; List and Verify are linearizable.
	Etcd
	// ZooKeeper: the runtime keeps the session alive; List and Verify may lag behind, but not
	// behind the session's own writes; a repeated Enter makes a second entry.
	ZooKeeper
)

var dialectNames = [...]string{Etcd: "etcd", ZooKeeper: "zookeeper"}

// ParseDialect returns the dialect of that name: etcd or zookeeper.
func ParseDialect(text string) (Dialect, error) {
	for d, name := range dialectNames {
		if name != "" && name == text {
			return Dialect(d), nil
		}
	}
	return 0, fmt.Errorf("dialect %q; want etcd or zookeeper", text)
}

// String is the dialect's name, such as etcd.
func (d Dialect) String() string {
	if int(d) < len(dialectNames) && dialectNames[d] != "" {
		return dialectNames[d]
	}
	return fmt.Sprintf("unknown-%d", d)
}

// MarshalText implements encoding.TextMarshaler.
func (d Dialect) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Dialect) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDialect(string(text))
	return err
}

const (
	// MaxTTL is the longest session and hold. etcd checkpoints the rest of a lease every five
	// minutes; with a longer TTL a change of its leader may give a lease again what it had used up,
	// and no takeover time would hold.
	MaxTTL         = 300 * time.Second
	defaultMaxHold = 5 * time.Second
	maxSelf        = 128 // bytes of a name; what is in it is the back end's
)

// Config is a participant's configuration. All participants of one election have the same, except
// for Self and Hold.
type Config struct {
	Self protocol.NodeID `json:"self"`
	// Dialect is required.
	Dialect Dialect `json:"dialect"`
	// TTL is the session's time to live. The default is 10 s. etcd: whole seconds, not below one
	// and a half times ServerElection, because the server would raise it silently. ZooKeeper: whole
	// milliseconds; the server may change it, but not to less than Hold.
	TTL time.Duration `json:"ttl,omitzero"`
	// Hold is how long a tenure may go on after its entry was last known to exist, and so how long
	// the next winner waits, in etcd's dialect after the last Touch, unless the tenure ended in good
	// order (Q6). At most TTL and MaxHold.
	// The default is half of TTL, or MaxHold if that is less, and none with ServersFixed. It may
	// differ between participants: each winner waits for the longer of its own and that of the last
	// tenure, which is in the queue's mark.
	Hold time.Duration `json:"hold,omitzero"`
	// MaxHold is the longest Hold that any participant may have. It has to be the same in the whole
	// election: a winner waits for it where no mark tells the last tenure's hold, as in a new
	// queue. The default is 5 s; a longer Hold is refused.
	MaxHold time.Duration `json:"max_hold,omitzero"`
	// ServersFixed says that each of etcd's servers is known to have the fix of its issue 15247:
	// version 3.4.31 or a later 3.4, 3.5.13 or a later 3.5, or 3.6.0 or later. Then claims depend
	// on the TTL alone, and Hold may be 0. Without a Hold, a single server without the fix is
	// enough for two leaders at one time. So all participants must have the same setting, and it is
	// false unless the versions were checked. It must be false in ZooKeeper's dialect.
	ServersFixed bool `json:"servers_mended,omitzero"`
	// Drift is the assumption about clocks; the default is protocol.DefaultDrift.
	Drift protocol.Drift `json:"drift,omitzero"`
	// ServerElection is E, the election timeout of etcd's servers; the default is 1 s, as theirs. A
	// leader that was cut off may renew leases for up to 2E after its followers last heard it,
	// while another one counts them already, by another clock: 4ρE are subtracted from each claim
	// in addition to the guard (Q5). ZooKeeper's dialect does not use it; it must be zero there.
	ServerElection time.Duration `json:"server_election,omitzero"`
	// KeepAliveEvery is the time from one renewal of the claim to the next: Touch in ZooKeeper's
	// dialect and, with a Hold, in etcd's; without one KeepAlive. The default is a quarter of TTL
	// or, if it is set, of Hold; in etcd's dialect without a Hold it is a third of TTL, as in
	// etcd's own clients.
	KeepAliveEvery time.Duration `json:"keep_alive_every,omitzero"`
	// Poll is the mean time between two checks of a waiter whose watches are silent, and of a
	// leader of its own entry in etcd's dialect without a Hold. The default is TTL; in etcd's
	// dialect it is twice TTL.
	Poll time.Duration `json:"poll,omitzero"`
	// Backoff is the mean time until a failed request is repeated; it doubles up to 16-fold. The
	// default is 100 ms.
	Backoff time.Duration `json:"backoff,omitzero"`

	mutants mutant.Switch
}

// withDefaults returns c with its defaults filled in.
func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.MaxHold == 0 {
		c.MaxHold = defaultMaxHold
	}
	if c.Dialect == Etcd && c.mutants.Has("servers-taken-for-mended") {
		c.ServersFixed = true
	}
	if c.Hold == 0 && !c.ServersFixed {
		c.Hold = min((c.TTL / 2).Truncate(time.Millisecond), c.MaxHold)
	}
	if c.Drift == (protocol.Drift{}) {
		c.Drift = protocol.DefaultDrift()
	}
	if c.ServerElection == 0 && c.Dialect == Etcd {
		c.ServerElection = time.Second
	}
	if c.KeepAliveEvery == 0 {
		c.KeepAliveEvery = c.TTL / 3
		if c.Hold > 0 {
			c.KeepAliveEvery = min(c.TTL, c.Hold) / 4
		}
	}
	if c.Poll == 0 {
		c.Poll = c.TTL
		if c.Dialect == Etcd {
			c.Poll *= 2
		}
	}
	if c.Backoff == 0 {
		c.Backoff = 100 * time.Millisecond
	}
	return c
}

// Validate returns an error, with the arithmetic, if the configuration with its defaults cannot
// hold.
func (c Config) Validate() error {
	c = c.withDefaults()
	if len(c.Self) == 0 || len(c.Self) > maxSelf {
		return fmt.Errorf("queue: self %.20q of %d bytes; want 1 to %d", c.Self, len(c.Self), maxSelf)
	}
	if err := c.Drift.Validate(); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if c.Drift.Guard > MaxTTL {
		return fmt.Errorf("queue: drift: a guard of %v; want at most %v", c.Drift.Guard, MaxTTL)
	}
	switch c.Dialect {
	case Etcd:
		if err := c.validateEtcd(); err != nil {
			return err
		}
	case ZooKeeper:
		if c.TTL < time.Millisecond || c.TTL > MaxTTL || c.TTL%time.Millisecond != 0 {
			return fmt.Errorf("queue: a TTL of %v; want 1ms to %v in whole milliseconds, as ZooKeeper counts", c.TTL, MaxTTL)
		}
		if c.ServerElection != 0 {
			return fmt.Errorf("queue: server_election of %v is for etcd; want 0 in ZooKeeper's dialect", c.ServerElection)
		}
		if c.ServersFixed {
			return fmt.Errorf("queue: servers_mended is for etcd; want false in ZooKeeper's dialect")
		}
	default:
		return fmt.Errorf("queue: dialect %v; want etcd or zookeeper", c.Dialect)
	}
	switch {
	case c.MaxHold < 0 || c.MaxHold > MaxTTL:
		return fmt.Errorf("queue: max_hold of %v; want more than 0, at most %v", c.MaxHold, MaxTTL)
	case c.Hold < 0 || c.Hold > c.TTL:
		return fmt.Errorf("queue: a hold of %v; want at most the TTL of %v, or a leader goes on after the store has ended its session", c.Hold, c.TTL)
	case c.Hold > c.MaxHold:
		return fmt.Errorf("queue: a hold of %v is above max_hold, %v; raise max_hold at every participant first, or other participants would not wait long enough in a new queue", c.Hold, c.MaxHold)
	case c.Hold == 0 && !c.ServersFixed:
		return fmt.Errorf("queue: no hold; want more than 0 and at most the TTL of %v: only etcd's servers that are known to have the fix need none (servers_mended)", c.TTL)
	}
	if c.Backoff <= 0 || c.Backoff > MaxTTL || c.Poll <= 0 || c.Poll > 24*time.Hour {
		return fmt.Errorf("queue: a backoff of %v and a poll of %v; want more than 0, and at most %v and 24h", c.Backoff, c.Poll, MaxTTL)
	}
	if c.KeepAliveEvery <= 0 {
		return fmt.Errorf("queue: keep_alive_every of %v; want more than 0", c.KeepAliveEvery)
	}
	if c.Dialect == Etcd {
		if err := c.validateClaim("TTL", c.TTL, c.renewEvery(leading)); err != nil {
			return err
		}
	}
	if c.Hold > 0 {
		return c.validateClaim("hold", c.Hold, c.KeepAliveEvery)
	}
	return nil
}

// validateEtcd checks the limits of Q5.
func (c Config) validateEtcd() error {
	if c.ServerElection < 0 || c.ServerElection > MaxTTL {
		return fmt.Errorf("queue: server_election of %v; want more than 0, at most %v", c.ServerElection, MaxTTL)
	}
	// What etcd does: ⌈3/2 of its election timeout⌉ in seconds.
	least := (c.ServerElection*3/2 + time.Second - 1).Truncate(time.Second)
	if c.TTL < least || c.TTL > MaxTTL || c.TTL%time.Second != 0 {
		return fmt.Errorf("queue: a TTL of %v; etcd counts whole seconds and raises silently what is below 3/2 × %v (server_election): want %v to %v",
			c.TTL, c.ServerElection, least, MaxTTL)
	}
	return nil
}

// validateClaim refuses a promise whose claim is too short to be renewed.
func (c Config) validateClaim(what string, promise, every time.Duration) error {
	margin := c.margin()
	if left := margin.Claim(promise); left <= every {
		return fmt.Errorf("queue: of a %s of %v a holder may claim %v × (1−ρ)/(1+ρ) − %v = %v (ρ = %d ppm), which is not more than keep_alive_every, %v: it would lapse before it is renewed",
			what, promise, promise, margin.Guard, left, margin.PPM, every)
	}
	return nil
}

// margin is the drift, with all that is subtracted from a claim (Q5).
//
// An etcd leader answers keep-alives until it steps down. It does so when a whole E of its ticks
// has passed in which no majority answered (raft.go: tickHeartbeat, MsgCheckQuorum): if the last
// answers came just after one check, the second check after it, up to 2E/(1−ρ) later, ends it. A
// follower waits for E of its ticks since the last heartbeat, and so does a voter (tickElection,
// inLease): from E/(1+ρ) on there may be a successor. That gives each lease TTL + E again
// (lessor.Promote), by its clock: the lease ends (TTL + 2E)/(1+ρ) after the last heartbeat at the
// soonest, which is X = 2E/(1−ρ) − 2E/(1+ρ) = 4ρE/(1−ρ²) sooner than TTL/(1+ρ) after the old
// leader's last answer. A claim lasts longest in true time on the slowest clock; there, 4ρE
// subtracted from it are worth 4ρE/(1−ρ) ≥ X.
//
// This assumes prompt heartbeats and answers, fine ticks, and an old leader whose process is not
// paused between its check of the lease and its answer. The guard has to cover the delays of the
// first two beyond the time of an election. A server that asks a majority whether it leads before
// it answers a keep-alive needs none of this.
func (c Config) margin() protocol.Drift {
	d := c.Drift
	if c.Dialect == Etcd {
		const million = 1_000_000
		d.Guard += (4*c.ServerElection*time.Duration(d.PPM) + million - 1) / million // at most 4 · 300 s · MaxPPM: it fits
	}
	return d
}

// renewEvery is the time from one KeepAlive or Touch to the next. In etcd's dialect a waiter claims
// nothing, and half of TTL leaves time to repeat a lost request. With a Hold a leader's claim
// counts from Touch, and KeepAlive only keeps the session.
func (c Config) renewEvery(p phase) time.Duration {
	switch {
	case c.Dialect != Etcd:
		return c.KeepAliveEvery
	case p == waiting:
		return max(c.KeepAliveEvery, c.TTL/2)
	case c.Hold > 0:
		return max(c.KeepAliveEvery, c.TTL/3)
	}
	return c.KeepAliveEvery
}

// Claim is how long a tenure is proven after its renewals were sent.
func (c Config) Claim() time.Duration {
	c = c.withDefaults()
	if c.Hold > 0 { // it is at most TTL
		return c.margin().Claim(c.Hold)
	}
	return c.margin().Claim(c.TTL)
}

// RequestTimeout is how long a back end should wait for an answer before it reports StatusUnknown:
// only one request of a kind is in flight, and it can be repeated while the claim lasts.
func (c Config) RequestTimeout() time.Duration {
	c = c.withDefaults()
	if c.Hold == 0 {
		return min(c.KeepAliveEvery, c.TTL/4)
	}
	return c.KeepAliveEvery
}

// WorstTakeover is the longest time until another participant may lead exclusively after a leader
// has fallen silent, without the requests that this takes, if every participant has this
// configuration: the session's TTL by the slowest clock allowed, and the hold-off. Where no mark
// tells the last tenure's hold, MaxHold takes the place of Hold. A store that changes its own
// leader meanwhile may give sessions a second TTL.
//
// It also holds for a leader that goes on without a claim, whether or not its work has returned; in
// ZooKeeper's dialect, from the time when its CloseSession arrives or its client gives up. A leader
// that resigns makes the others wait until its work has returned.
func (c Config) WorstTakeover() time.Duration {
	c = c.withDefaults()
	const million = 1_000_000
	both := c.TTL + c.Hold // at most ten minutes
	return both * million / (million - time.Duration(c.Drift.PPM))
}
