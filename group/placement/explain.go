package placement

import (
	"fmt"
	"time"
)

// words makes the reasons of moves. Most moves between two members have the same.
type words struct {
	*Planner
	made map[step]string
}

func (p *Planner) words() words { return words{p, make(map[step]string)} }

// causes are the names of causes of moves.
var causes = [...]string{
	free: CauseFree, drains: CauseDraining, unwanted: CauseUnwanted, over: CauseQuota, outranked: CausePriority,
	misplaced: CausePreference, loaded: CauseLoad, zoned: CauseZone,
}

// move puts a step into words.
func (w words) move(k *key, s step) Move {
	m := Move{Key: k.name, To: w.list[s.to].ID, Cause: causes[s.cause]}
	from := k.holder
	if from != none {
		m.From = w.list[from].ID
	}
	c := &w.classes[k.class]
	at := s
	at.key = from
	plain := c.flat && s.to != k.last && m.To != c.prefer
	if plain {
		if text, ok := w.made[at]; ok {
			m.Reason = text
			return m
		}
	}
	choice := fmt.Sprintf("%s ranks first for it", m.To)
	switch tier, _ := c.tier(s.to); {
	case m.To == c.prefer:
		choice = fmt.Sprintf("%s is the preferred member", m.To)
	case s.evened:
		choice = fmt.Sprintf("%s has less load than others", m.To)
	case s.to == k.last:
		choice = fmt.Sprintf("%s held it last", m.To)
	case !c.flat && tier&inZone != 0:
		choice = fmt.Sprintf("%s is in the preferred zone, %s", m.To, c.zone)
	case !c.flat && c.wants == nil:
		choice = fmt.Sprintf("%s has room, which preferred members have not", m.To)
	case !c.flat:
		choice = fmt.Sprintf("%s wants it with the priority %d", m.To, tier/priority)
	}
	switch s.cause {
	case free:
		m.Reason = "nobody holds it, and " + choice
	case drains:
		m.Reason = m.From + " is draining, and " + choice
	case unwanted:
		m.Reason = m.From + " does not want it, and " + choice
	case over:
		m.Reason = fmt.Sprintf("%s has more than its quota of keys, %d, and %s", m.From, w.list[from].Quota, choice)
	case outranked:
		held, _ := c.tier(from)
		m.Reason = fmt.Sprintf("%s holds it with the priority %d, and %s", m.From, held/priority, choice)
	case misplaced:
		m.Reason = fmt.Sprintf("%s holds it, and %s", m.From, choice)
	case loaded:
		m.Reason = fmt.Sprintf("%s has the load %g, and %s has %g", m.From, float64(s.was)/1000, m.To, float64(s.is)/1000)
		if x, y := w.list[from].Weight, w.list[s.to].Weight; x != y {
			m.Reason = fmt.Sprintf("%s has the load %g with the weight %d, and %s has %g with %d", m.From, float64(s.was)/1000, x, m.To, float64(s.is)/1000, y)
		}
	case zoned:
		m.Reason = fmt.Sprintf("the zone %q has %d keys, and %q has %d", w.list[from].Zone, s.was, w.list[s.to].Zone, s.is)
	}
	if plain {
		w.made[at] = m.Reason
	}
	return m
}

// Outlook is what a [Planner] would do.
type Outlook struct {
	Now   []Move `json:"now"`   // begins at the next Plan
	Later []Move `json:"later"` // waits until it is quiet, or for the rate, and may change until then
	Idle  []Idle `json:"idle"`  // the keys that nobody can be given
}

// Explain returns what a Plan at now would begin, what would be begun later, and what nobody can be given. It begins
// nothing.
func (p *Planner) Explain(now time.Time) Outlook {
	calm, _ := p.think(now)
	begin, later, _ := p.due(now)
	var o Outlook
	words := p.words()
	soon := make(map[int32]bool)
	for _, s := range begin {
		o.Now = append(o.Now, words.move(&p.keys[s.key], s))
		soon[s.key] = true
	}
	if !calm {
		later = p.compute(true)
	}
	for _, s := range later {
		if !soon[s.key] {
			o.Later = append(o.Later, words.move(&p.keys[s.key], s))
		}
	}
	r := p.place(false)
	for i, why := range r.why {
		if k := &p.keys[i]; k.name != "" {
			if why = r.idle(int32(i), why); why != stays {
				o.Idle = append(o.Idle, Idle{k.name, p.idle(k, why)})
			}
		}
	}
	return o
}

// idle is why a key can be given to nobody, or stays.
func (r *run) idle(i int32, why cause) cause {
	k := &r.keys[i]
	switch {
	case why == kept:
		return kept
	case why == stays || r.owner[i] != k.holder:
		return stays
	case len(r.classes[k.class].from) == 0:
		return refused
	}
	return full
}

// idle says why a key is given to nobody.
func (p *Planner) idle(k *key, why cause) string {
	who := "nobody holds it"
	if k.holder != none {
		m := &p.list[k.holder]
		who = m.ID + " holds it, does not want it"
		if m.Draining {
			who = m.ID + " holds it, is draining"
		}
	}
	switch wants := p.classes[k.class].wants; {
	case why == kept:
		m := &p.list[k.last]
		return fmt.Sprintf("it is kept for %s until %s", m.ID, m.Back.Format(time.RFC3339))
	case why == full:
		return who + ", and all that could have it have as many keys as their quotas allow"
	case wants == nil:
		return who + ", and there is no member that takes keys"
	case len(wants) == 0:
		return who + ", and nobody wants it"
	}
	return who + ", and no member that wants it takes keys"
}

// Plan returns the moves that members and keys would need at once, without a rate and with the default slack.
func Plan(members []Member, keys []Key, now time.Time) ([]Move, error) {
	p, err := New(Settings{Quiet: -1})
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if _, ok := p.slots[m.ID]; ok {
			return nil, fmt.Errorf("there are two members %q; want each once", m.ID)
		}
		if err := p.SetMember(m); err != nil {
			return nil, err
		}
	}
	for _, k := range keys {
		if _, ok := p.index[k.Name]; ok {
			return nil, fmt.Errorf("there are two keys %q; want each once", k.Name)
		}
		if err := p.SetKey(k); err != nil {
			return nil, err
		}
	}
	moves, _ := p.Plan(now)
	return moves, nil
}
