package group

import (
	"cmp"
	"slices"
	"strings"
)

// stage is what the work of a key does.
type stage uint8

const (
	idle     stage = iota
	running        // begun, not stopped
	stopping       // told to end; it has not returned
)

// memberKey is a key that a member wants or holds.
type memberKey struct {
	key      Key
	token    Token // while it is not idle
	priority int32
	stage    stage
	wanted   bool
}

// work names the work of an overrun.
type work struct {
	key   Key
	token Token
}

func (w work) compare(o work) int {
	return cmp.Or(strings.Compare(string(w.key), string(o.key)), w.token.Compare(o.token))
}

// memberKeys are a member's keys.
type memberKeys struct {
	index    index // of all
	all      []memberKey
	unsorted bool
	running  int               // of all
	held     int               // of all, running or stopping
	over     map[work]struct{} // overruns of sessions that are over
	overKeys map[Key]int       // how many of them a key has
}

func (ps *memberKeys) at(place uint32) Key { return ps.all[place].key }

func (ps *memberKeys) find(k Key) *memberKey {
	if i, ok := ps.index.find(k, ps); ok {
		return &ps.all[i]
	}
	return nil
}

// want adds or replaces a candidacy.
func (ps *memberKeys) want(w Want) {
	p := ps.find(w.Key)
	if p == nil {
		if n := len(ps.all); n > 0 && ps.all[n-1].key > w.Key {
			ps.unsorted = true
		}
		ps.index.add(w.Key, uint32(len(ps.all)))
		ps.all = append(ps.all, memberKey{key: w.Key})
		p = &ps.all[len(ps.all)-1]
	}
	p.priority, p.wanted = int32(w.Priority), true
}

// tidy forgets a key that is neither wanted nor held.
func (ps *memberKeys) tidy(k Key) {
	i, ok := ps.index.find(k, ps)
	if !ok || ps.all[i].wanted || ps.all[i].stage != idle {
		return
	}
	ps.index.remove(k, i)
	last := len(ps.all) - 1
	if int(i) != last {
		ps.all[i] = ps.all[last]
		ps.index.move(ps.all[i].key, uint32(last), i)
		ps.unsorted = true
	}
	ps.all[last] = memberKey{}
	ps.all = ps.all[:last]
}

// sort puts the keys in order, so that what is said of all of them does not depend on the past.
func (ps *memberKeys) sort() {
	if !ps.unsorted {
		return
	}
	ps.unsorted = false
	slices.SortFunc(ps.all, func(a, b memberKey) int { return strings.Compare(string(a.key), string(b.key)) })
	ps.index.clear()
	for i := range ps.all {
		ps.index.add(ps.all[i].key, uint32(i))
	}
}

// overrun makes overruns of all work that has not returned.
func (ps *memberKeys) overrun() {
	if ps.held == 0 {
		return
	}
	ps.sort()
	if ps.over == nil {
		ps.over, ps.overKeys = make(map[work]struct{}, ps.held), make(map[Key]int, ps.held)
	}
	var unwanted []Key
	for i := range ps.all {
		p := &ps.all[i]
		if p.stage == idle {
			continue
		}
		ps.overran(work{p.key, p.token})
		p.stage, p.token = idle, Token{}
		if !p.wanted {
			unwanted = append(unwanted, p.key)
		}
	}
	ps.held, ps.running = 0, 0
	for _, k := range unwanted {
		ps.tidy(k)
	}
}

// overran adds an overrun.
func (ps *memberKeys) overran(w work) {
	if ps.over == nil {
		ps.over, ps.overKeys = make(map[work]struct{}), make(map[Key]int)
	}
	ps.over[w] = struct{}{}
	ps.overKeys[w.key]++
}

// overruns reports whether older work of a key still runs.
func (ps *memberKeys) overruns(k Key) bool { return ps.overKeys[k] > 0 }

// returned ends an overrun, and reports whether there was one.
func (ps *memberKeys) returned(k Key, t Token) bool {
	w := work{k, t}
	if _, ok := ps.over[w]; !ok {
		return false
	}
	delete(ps.over, w)
	if ps.overKeys[k]--; ps.overKeys[k] == 0 {
		delete(ps.overKeys, k)
	}
	if len(ps.over) == 0 { // a map keeps the memory of what it had
		ps.over, ps.overKeys = nil, nil
	}
	return true
}

// overrunning returns the overruns in order.
func (ps *memberKeys) overrunning() []work {
	all := make([]work, 0, len(ps.over))
	for w := range ps.over {
		all = append(all, w)
	}
	slices.SortFunc(all, work.compare)
	return all
}

// report fills in the lists of a report.
func (ps *memberKeys) report(msg *Message) {
	ps.sort()
	if ps.held > 0 {
		msg.Held = make([]Held, 0, ps.held)
	}
	msg.Wants = make([]Want, 0, len(ps.all))
	for i := range ps.all {
		p := &ps.all[i]
		if p.stage != idle {
			msg.Held = append(msg.Held, Held{Key: p.key, Token: p.token})
		}
		if p.wanted {
			msg.Wants = append(msg.Wants, Want{Key: p.key, Priority: int(p.priority)})
		}
	}
	if len(ps.over) > 0 {
		msg.Overruns = make([]Held, 0, len(ps.over))
		for _, w := range ps.overrunning() {
			msg.Overruns = append(msg.Overruns, Held{Key: w.key, Token: w.token})
		}
	}
}
