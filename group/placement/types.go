package placement

import (
	"fmt"
	"math"
	"time"
)

// Limits of what a member and a key can have.
const (
	MaxWeight   = 10_000
	MaxLoad     = 1e9
	MaxPriority = 1000
)

// The defaults of fields that are zero.
const (
	DefaultWeight   = 100
	DefaultLoad     = 1
	DefaultPriority = 100
	DefaultQuiet    = 10 * time.Second
	DefaultSlack    = 10
)

// Member is a member as placement sees it.
type Member struct {
	ID       string
	Weight   int       // its share of the load in proportion to the others'; 0 is 100
	Zone     string    // where it runs
	Quota    int       // how many keys it can hold; 0 is no limit
	Draining bool      // it is to be emptied, and gets no keys
	Back     time.Time // it is away, and its keys are kept free for it until then; zero: it is here
}

// Want is a member's candidacy for a key.
type Want struct {
	Member   string
	Priority int // 1 to 1000, 0 for 100; the greatest wins
}

// Key is a key as placement sees it.
type Key struct {
	Name    string
	Holder  string  // the member that holds it, or nobody: ""
	Next    string  // the member that it is on its way to: a move that has begun
	Last    string  // the member that held it last, where that is known and it is free
	Wants   []Want  // who may hold it; nil: every member. It must not be changed; keys with equal wants may share it
	Replace bool    // a greater priority takes it away from its holder
	Load    float64 // what it costs, in any unit, to a thousandth; 0 is 1
	Prefer  string  // the member that is to hold it, if it is there
	Zone    string  // the zone that is to hold it, if a member there can
}

// Move is a wish: that Key be held by To. From is its holder, or "" if it is free.
type Move struct {
	Key    string `json:"key"`
	From   string `json:"from,omitzero"`
	To     string `json:"to"`
	Reason string `json:"reason"`
	Cause  string `json:"cause,omitzero"` // the kind of reason: one of the Cause constants, or a word of a Placer's own
}

// The causes of moves of a [Planner], in the order in which they begin.
const (
	CauseFree       = "free"       // nobody holds the key
	CauseDraining   = "draining"   // its holder is draining
	CauseUnwanted   = "unwanted"   // its holder does not want it
	CauseQuota      = "quota"      // its holder has more keys than its quota
	CausePriority   = "priority"   // a member with a greater priority is there
	CausePreference = "preference" // a member that it prefers is there
	CauseLoad       = "load"       // its holder has more load than another member
	CauseZone       = "zone"       // its holder's zone has more keys than another zone
)

// Idle is a key that nobody holds, or that its holder should not hold, and that nobody can be given.
type Idle struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// Placer decides which member holds which key. A group's coordinator tells it all changes, and asks it after each; one
// goroutine calls it. A Placer lives as long as the coordinator's term, and a new one is told everything anew.
// If it has the method Grow of [Planner] it is told before how many keys there are.
type Placer interface {
	// SetMember adds a member, or replaces what is known of it.
	SetMember(Member) error
	// RemoveMember removes a member. What it held is free.
	RemoveMember(id string) error
	// SetKey adds a key, or replaces what is known of it. Last is kept if it is "".
	SetKey(Key) error
	// RemoveKey removes a key.
	RemoveKey(name string) error
	// Plan returns the moves that should begin now. They count as begun until SetKey says otherwise. If nothing
	// changes, Plan is called again at next; zero means never. now does not go back. Until Plan returns, no member gets
	// a key; a coordinator that waits for two promises gives its term up.
	Plan(now time.Time) (moves []Move, next time.Time)
}

// Check returns nil if a coordinator can try to carry out moves: each names a key, no key twice, and a member that is
// known. It is for the moves of other Placers than [Planner].
func Check(moves []Move, known func(member string) bool) error {
	seen := make(map[string]bool, len(moves))
	for _, m := range moves {
		switch {
		case m.Key == "":
			return fmt.Errorf("a move to %q without a key; want the key's name", m.To)
		case m.To == "":
			return fmt.Errorf("the move of key %q names nobody; want the id of a member", m.Key)
		case m.To == m.From:
			return fmt.Errorf("key %q moves from %q to itself; want another member", m.Key, m.To)
		case !known(m.To):
			return fmt.Errorf("key %q moves to %q, which is no member; want the id of a member", m.Key, m.To)
		case m.From != "" && !known(m.From):
			return fmt.Errorf("key %q moves away from %q, which is no member; want the id of its holder", m.Key, m.From)
		case seen[m.Key]:
			return fmt.Errorf("key %q is moved twice; want one move a key", m.Key)
		}
		seen[m.Key] = true
	}
	return nil
}

// Settings are a [Planner]'s. The zero value has the defaults.
type Settings struct {
	// Quiet is how long no member must have come or gone, or begun or ceased to drain, before keys that are held move
	// for balance, preference or priority. 0 means 10 s; negative is no wait.
	Quiet time.Duration

	// Slack is the difference between the loads of two members, in percent of the mean load, from which on held keys
	// move. It counts if the loads of the keys differ, because these are measurements. 0 means 10; negative means none.
	Slack int

	// Rate is how many keys that are held may begin to move in a second. 0 is no limit.
	Rate int

	// AtOnce is how many keys that are held may be on their way at one time. 0 is no limit.
	AtOnce int
}

// check returns the settings with the defaults filled in.
func (s Settings) check() (Settings, error) {
	if s.Rate < 0 {
		return s, fmt.Errorf("Settings.Rate is %d; want 0 for no limit, or how many keys a second", s.Rate)
	}
	if s.AtOnce < 0 {
		return s, fmt.Errorf("Settings.AtOnce is %d; want 0 for no limit, or how many keys", s.AtOnce)
	}
	if s.Slack > 100 {
		return s, fmt.Errorf("Settings.Slack is %d percent; want at most 100", s.Slack)
	}
	if s.Quiet == 0 {
		s.Quiet = DefaultQuiet
	}
	if s.Slack == 0 {
		s.Slack = DefaultSlack
	}
	s.Quiet, s.Slack = max(s.Quiet, 0), max(s.Slack, 0)
	return s, nil
}

// check returns what is wrong with a member by itself, and fills in the defaults.
func (m *Member) check() error {
	switch {
	case m.ID == "":
		return fmt.Errorf("a member without an id; want one")
	case m.Weight < 0 || m.Weight > MaxWeight:
		return fmt.Errorf("member %q has the weight %d; want 1 to %d, or 0 for %d", m.ID, m.Weight, MaxWeight, DefaultWeight)
	case m.Quota < 0:
		return fmt.Errorf("member %q has the quota %d; want the number of keys that it can hold, or 0 for no limit", m.ID, m.Quota)
	}
	if m.Weight == 0 {
		m.Weight = DefaultWeight
	}
	return nil
}

// thousandths is a load as the planner counts it.
func thousandths(load float64) (int64, error) {
	switch {
	case load == 0:
		return DefaultLoad * 1000, nil
	case math.IsNaN(load) || load < 0 || load > MaxLoad:
		return 0, fmt.Errorf("the load %v; want more than 0 and at most %.0f, or 0 for %d", load, float64(MaxLoad), DefaultLoad)
	}
	return max(1, int64(math.Round(load*1000))), nil
}
