package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/cmd/elect/internal/brief"
)

// mood is the tone of a sentence.
type mood int

const (
	plain  mood = iota
	good        // there is a leader
	struck      // something was done to a node
	bad         // what must not happen
)

// sentence is one event, in words for a reader who has never heard of leader election.
type sentence struct {
	key  int // from 1, in the order of their begin
	at   time.Duration
	mood mood
	text string
	open bool // it will be rewritten when its outcome is known
}

// keptSentences is the number of kept sentences.
const keptSentences = 64

// tell adds a sentence, and returns its key.
func (m *model) tell(mood mood, format string, args ...any) int {
	key := 1
	if n := len(m.story); n > 0 {
		key = m.story[n-1].key + 1
	}
	m.story = append(m.story, sentence{key: key, at: m.now, mood: mood, text: strings.TrimSpace(fmt.Sprintf(format, args...))})
	if extra := len(m.story) - keptSentences; extra > 0 {
		m.story = slices.Delete(m.story, 0, extra)
	}
	return key
}

// begin adds a sentence whose outcome is still to come.
func (m *model) begin(format string, args ...any) int {
	key := m.tell(struck, format, args...)
	m.story[len(m.story)-1].open = true
	return key
}

// finish rewrites an open sentence, in its place. Without a text it stays as it is.
func (m *model) finish(key int, mood mood, text string) {
	for i := range m.story {
		if s := &m.story[i]; s.key == key && s.open {
			s.open = false
			if text != "" {
				s.text, s.mood = text, mood
			}
		}
	}
}

// narrate explains an act, before its outcome is known.
func (m *model) narrate(a act, i int, leads bool) {
	id := ids[i]
	rest := "It ran no job, so nothing changes."
	if w := m.worker(); w >= 0 {
		rest = fmt.Sprintf("It ran no job, so %s goes on with it.", ids[w])
	}
	if len(m.ledger.lives) == 0 {
		rest = "No node is elected before all three have met once."
	}
	switch {
	case m.blow == nil || m.blow.node != i:
	case a == kill && m.blow.act == pause && !m.nodes[i].cut:
		leads = true // now its keeper can speak
	default:
		leads = false // it was hit before, and is ending
		rest = "The others are about to take over."
	}
	if few := (a == kill || a == pause || a == cut) && !m.majority(); few {
		rest = m.tooFew()
		if w := m.worker(); m.blow != nil {
			m.blow.alone = true
		} else if w >= 0 && !leads {
			m.blow = &blow{act: a, node: w, at: m.now, alone: true}
		}
	} else if leads {
		rest = ""
	}
	strike := func(key int) {
		if m.blow != nil {
			m.finish(m.blow.key, plain, "")
		}
		m.blow = &blow{act: a, node: i, at: m.now, alone: !m.majority(), key: key}
	}
	switch a {
	case start:
		if m.nodes[i].returned == started {
			m.tell(struck, "%s is started again.", id)
		}
	case kill:
		if leads {
			strike(m.begin("%s was killed. %s", id, rest))
			break
		}
		m.tell(struck, "%s was killed. %s", id, rest)
	case killJob:
		strike(m.begin("%s's job was killed.", id))
	case pause:
		if leads {
			m.tell(struck, "%s is paused: it is frozen and cannot answer. No node may take over before the promise to it has run out, in %s at most. %s", id, span(m.promise), rest)
			strike(0)
			break
		}
		m.tell(struck, "%s is paused. %s", id, rest)
	case wake:
		m.begin("%s wakes up.", id)
	case cut:
		if leads {
			m.tell(struck, "%s is cut off: no message reaches it or leaves it. It must end its job before the promise runs out, in %s at most. Only then may another job begin. %s", id, span(m.promise), rest)
			strike(0)
			break
		}
		m.tell(struck, "%s is cut off. %s", id, rest)
	case heal:
		m.begin("%s is connected again.", id)
	case resign:
		strike(m.begin("%s was asked to resign.", id))
	case transfer:
		from := m.worker()
		key := m.begin("%s was asked to hand leadership over to %s.", ids[from], id)
		if m.blow != nil {
			m.finish(m.blow.key, plain, "")
		}
		m.blow = &blow{act: a, node: from, at: m.now, key: key}
	}
}

// tooFew says why there can be no leader.
func (m *model) tooFew() string {
	switch m.reachable() {
	case 0:
		return "No node is left to lead."
	default:
		for i := range m.nodes {
			if m.nodes[i].reachable() {
				return fmt.Sprintf("Only %s is left, and one of three is no majority: no node may lead until another one is back.", ids[i])
			}
		}
	}
	return ""
}

// began says that a job has begun, and why that one.
func (m *model) began() {
	now, _ := m.ledger.now()
	m.now = max(m.now, now.first)
	before, ok := m.ledger.before()
	if !ok {
		m.tell(good, "%s was elected with token %v, and runs the job. The others stand by.", now.id, now.token)
		return
	}
	m.takeovers++
	gap := now.first - before.last
	b := m.blow
	m.blow = nil
	if b == nil {
		m.took = gap
		m.tell(good, "%s lost leadership without an act of yours: this machine may be busy. %s leads with token %v; the log was silent for %s.",
			before.id, now.id, now.token, span(gap))
		return
	}
	if !b.alone {
		m.took = now.first - b.at
	}
	after, old := span(now.first-b.at), ids[b.node]
	ended := fmt.Sprintf("%s's job had written for the last time %s before.", before.id, span(gap))
	text := ""
	switch fast := now.first-b.at < m.promise*4/5; { // no job can begin so early without a keeper's word
	case b.alone:
		text = fmt.Sprintf("Two of three can talk again: %s leads with token %v. The job was away for %s.", now.id, now.token, span(gap))
		m.finish(b.key, struck, "")
		b.key = 0
	case b.act == kill && fast:
		text = fmt.Sprintf("%s was killed. Its keeper told the others that all its work is dead, so %s took over after %s.", old, now.id, after)
	case b.act == kill:
		text = fmt.Sprintf("%s was killed, and no keeper reported that all its work is dead. So the promise to it had to run out first: %s took over after %s.", old, now.id, after)
	case b.act == killJob && now.id == old:
		text = fmt.Sprintf("%s's job was killed. %s gave leadership up, was elected again, and its next job began after %s.", old, old, after)
	case b.act == killJob:
		text = fmt.Sprintf("%s's job was killed. %s gave leadership up at once, and %s took over after %s.", old, old, now.id, after)
	case b.act == resign && now.id == old:
		text = fmt.Sprintf("%s was asked to resign. It ended its job and gave leadership up; no other node took over, so it leads again, after %s.", old, after)
	case b.act == resign:
		text = fmt.Sprintf("%s was asked to resign. It ended its job first, and then %s took over: %s after it was asked.", old, now.id, after)
	case b.act == transfer:
		text = fmt.Sprintf("%s was asked to hand leadership over. It ended its job first, and then %s took over: %s after it was asked.", old, now.id, after)
	default: // paused or cut off
		blow := map[act]string{pause: "the pause", cut: "the cut"}[b.act]
		text = fmt.Sprintf("The promise to %s has run out: %s took over %s after %s. %s", old, now.id, after, blow, ended)
	}
	if b.key != 0 {
		m.finish(b.key, good, text)
		return
	}
	m.tell(good, "%s", text)
}

// arrived says what a returned node finds, once it has answered.
func (m *model) arrived(i int) {
	n, id := &m.nodes[i], ids[i]
	if n.returned == not || n.follows == "" && m.majority() {
		return // it is still searching
	}
	now, ok := m.ledger.now()
	if !ok || n.follows == "" {
		return
	}
	was := n.returned
	text, after := "", "" // of its return, and of now; "" is told already
	came := id + " is connected again"
	if was == woken {
		came = id + " woke up"
	}
	mine := func() (life, life, bool) { // its last life, and the next one
		for k := len(m.ledger.lives) - 2; k >= 0; k-- {
			if l := m.ledger.lives[k]; l.id == id {
				return l, m.ledger.lives[k+1], true
			}
		}
		return life{}, life{}, false
	}
	switch {
	case n.follows == id && n.token == 0, n.follows != now.id:
		return // it believes the old state; in a moment it will know
	case was == started && n.follows == id:
		after = id + " is back, and leads."
	case was == started:
		after = fmt.Sprintf("%s is back, and follows %s.", id, n.follows)
	case n.follows == id && now.first > n.since:
		text = came + "."
	case n.follows == id && was == woken:
		text = came + ", and still leads: it was not away for too long."
	case n.follows == id:
		text = came + ", and still leads."
	default:
		own, next, led := mine()
		led = led && own.last >= n.left-silence
		switch away := next.first - own.last; {
		case led && now.first > n.since:
			text, after = came+".", fmt.Sprintf("%s follows %s; its own job was dead %s before %s's began.", id, n.follows, span(away), next.id)
		case led && was == woken:
			text = fmt.Sprintf("%s and found that its lease is over; its job had been killed %s before %s's began.", came, span(away), next.id)
		case led:
			text = fmt.Sprintf("%s. It learns of token %v and follows %s; its own job was dead %s before %s's began.", came, now.token, n.follows, span(away), next.id)
		case now.first > n.since:
			text = came + "."
		default:
			text = fmt.Sprintf("%s, and follows %s.", came, n.follows)
		}
	}
	n.returned = not
	if b := m.blow; b != nil && b.node == i && !b.alone && n.token == now.token && now.id == id {
		m.finish(b.key, plain, "")
		m.blow = nil // it was back in time
	}
	told := text == "" || text == came+"."
	for _, s := range slices.Backward(m.story) {
		if text != "" && s.open && strings.HasPrefix(s.text, id+" ") {
			m.finish(s.key, plain, text)
			told = true
			break
		}
	}
	if !told {
		m.tell(plain, "%s", text)
	}
	if after != "" {
		m.tell(plain, "%s", after)
	}
}

// watchdog reports what is missing, and closes sentences that stayed open so long that nothing more will come.
func (m *model) watchdog() {
	if b := m.blow; b != nil && b.alone && !b.told && m.worker() < 0 && !m.majority() {
		b.told = true
		if n := &m.nodes[b.node]; n.condition == running {
			m.tell(plain, "%s could not renew its lease without a majority, and has ended its job. No node runs it now.", ids[b.node])
		}
	}
	for i := range m.story {
		s := &m.story[i]
		if s.open && m.now-s.at > 10*m.promise {
			s.open = false
		}
	}
}

// span formats a time for a sentence: in two units, in ASCII and separated.
func span(d time.Duration) string {
	d = brief.Round(max(d, 0))
	unit, name := time.Second, " s"
	if d < time.Second {
		unit, name = time.Millisecond, " ms"
	}
	// The quotient of two whole numbers is the float nearest to the exact value.
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + name
}
