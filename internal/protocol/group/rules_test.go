package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// rule is a story of one rule. It panics with a wrong if the rule is broken.
type rule struct {
	name string
	tell func(mutate func(*MemberConfig, *CoordinatorConfig))
}

// play returns what is wrong.
func (r *rule) play(mutate func(*MemberConfig, *CoordinatorConfig)) (says string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case wrong:
			says = string(p)
		default:
			panic(p)
		}
	}()
	r.tell(mutate)
	return ""
}

func TestRules(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if says := r.play(nil); says != "" {
				t.Error(says)
			}
		})
	}
}

type mutation = func(*MemberConfig, *CoordinatorConfig)

var rules = slices.Concat(rulesOfSessions, rulesOfRegistries, rulesOfTenures)

// rulesOfSessions are G1 to G6.
var rulesOfSessions = []rule{
	{"hands out, moves, adopts", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1", "n2", "n3")
		for _, n := range w.order {
			w.want(n.id, "a", "b", "c")
		}
		w.begin(1, "n1", "n2", "n3")
		w.move("a", "n1")
		if w.holder("a") != "" {
			w.fail("assigned during cover")
		}
		w.sleep(4 * time.Second)
		w.move("a", "n1")
		w.move("b", "n2")
		w.move("c", "n2")
		if w.members["n1"].running["a"] != (Token{1, 1}) || w.members["n2"].running["c"] != (Token{1, 1}) {
			w.fail("%v %v; want work begun", w.members["n1"].running, w.members["n2"].running)
		}
		w.move("a", "n3")
		if w.members["n3"].running["a"] != (Token{1, 2}) || len(w.members["n1"].running) != 0 {
			w.fail("%v; want it moved", w.members["n3"].running)
		}
		w.sleep(time.Minute)
		if len(w.members["n2"].running) != 2 || w.resign != "" {
			w.fail("%v %q; want all to go on", w.members["n2"].running, w.resign)
		}
		w.begin(2, "n1", "n2", "n3")
		if !w.c.Covered() || w.holder("b") != "n2" || w.members["n2"].running["b"] != (Token{1, 1}) {
			w.fail("covered %v, holder %s; want the key adopted, and cover ended by account", w.c.Covered(), w.holder("b"))
		}
		w.move("b", "n1")
		if w.members["n1"].running["b"] != (Token{2, 1}) {
			w.fail("%v; want it moved", w.members["n1"].running)
		}
	}},
	{"a lapsed session never comes back", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		n.hang = true
		claim := n.m.View().Claim
		w.lose = func(from, _ string, _ *Message) bool { return from == "n1" }
		w.sleep(claim.Add(-w.set.Drain).Sub(w.now) - 1)
		if len(n.stopped) != 0 {
			w.fail("%v before the drain", n.stopped)
		}
		w.sleep(1)
		if len(n.stopped) != 2 || n.m.View().Session.Epoch != 1 {
			w.fail("%v %v; want the work stopped at the drain, and the session to go on", n.stopped, n.m.View())
		}
		late := n.m.polls[0]
		w.now = claim
		n.give(Input{Kind: Receive, Conn: n.conn, Message: Message{Type: Answer, Tenure: 1, Number: n.m.number, Seq: n.m.seq, Promise: w.set.Promise}})
		v := n.m.View()
		if v.Session.Epoch != 2 || v.Claim != protocol.Always || v.Admitted || len(n.m.keys.over) != 2 {
			w.fail("%+v after %v; want epoch 2 without a claim and not admitted, and 2 overruns", v, late)
		}
	}},
	{"what has returned is no overrun", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		w.now = n.m.View().Claim
		n.give(Input{Kind: Returned, Held: []Held{{Key: "a", Token: n.running["a"]}}})
		if _, ok := n.stopped["a"]; ok || len(n.stopped) != 1 || n.m.View().Session.Epoch != 2 {
			w.fail("%v, %+v; want c stopped, and a not", n.stopped, n.m.View())
		}
	}},
	{"overruns cover their keys", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		n.hang = true
		w.lose = func(from, _ string, msg *Message) bool { return from == "n1" && msg.Type != Report }
		w.sleep(2900 * time.Millisecond)
		w.lose = nil
		if n.m.View().Session.Epoch != 2 {
			w.fail("%v; want epoch 2", n.m.View())
		}
		if k, _ := w.c.Key("a"); !k.Overrun || k.Session != (Session{}) {
			w.fail("%+v; want it free and covered", k)
		}
		w.move("a", "n2")
		if k, _ := w.c.Key("a"); k.Session != (Session{}) || k.Reserved.Member != "n2" {
			w.fail("%+v; want it reserved", k)
		}
		n.give(Input{Kind: Returned, Held: []Held{{Key: "a", Token: n.running["a"]}}})
		w.run()
		if w.holder("a") != "n2" {
			w.fail("%q; want it assigned when the overrun has ended", w.holder("a"))
		}
	}},
	{"a newer epoch of the process frees what older work does not cover", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		n.hang = true
		// Reserved for another before the session ends: the overrun comes first.
		w.move("a", "n2")
		if k, _ := w.c.Key("a"); !k.Revoked || k.Reserved.Member != "n2" {
			w.fail("%+v; want it revoked and reserved", k)
		}
		w.lose = func(from, _ string, msg *Message) bool { return from == "n1" && msg.Type == Poll }
		w.sleep(2900 * time.Millisecond)
		w.lose = nil
		if k, _ := w.c.Key("a"); n.m.View().Session.Epoch != 2 || !k.Overrun || len(w.members["n2"].running) != 1 {
			w.fail("%+v, %v; want it covered", k, w.members["n2"].running)
		}
	}},
	{"a new life of a member proves nothing about the older one", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		old := w.dies("n1")
		w.start("n1", 9)
		w.want("n1", "a")
		w.connect("n1")
		if w.holder("a") != "n1" {
			w.fail("a is free while the older process may hold it")
		}
		w.coordinate(Input{Kind: Dead, Session: w.session("n1")}) // another process
		if k, _ := w.c.Key("a"); k.Session != old {
			w.fail("%+v; want it held by %v after a word about another process", k, old)
		}
		w.coordinate(Input{Kind: Dead, Session: Session{Member: "n2", Process: old.Process}}) // of another member
		if k, _ := w.c.Key("a"); k.Session != old {
			w.fail("%+v; want it held by %v after another member's word about its process", k, old)
		}
		w.sleep(2900 * time.Millisecond)
		if w.holder("a") != "n1" {
			w.fail("free before the promise is over")
		}
		w.sleep(400 * time.Millisecond)
		if w.holder("a") != "" {
			w.fail("held when the promise is over")
		}
	}},
	{"a witness frees the keys of its process", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		dead := w.dies("n1")
		w.coordinate(Input{Kind: Dead, Session: dead})
		if w.holder("a") != "" {
			w.fail("the key of a dead process is held")
		}
		conn := w.connect("n2")
		w.raw(conn, "n2", Message{})
		w.sent = map[MessageType]int{}
		w.next++
		w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n1"})
		w.raw(w.next, "n1", Message{Type: Report, Session: dead, Number: 99, Tenure: 1, Held: []Held{{Key: "a", Token: Token{1, 1}}}})
		if w.sent[Refuse] != 1 || w.holder("a") != "" {
			w.fail("%v, %q; want a late report of the dead process refused", w.sent, w.holder("a"))
		}
	}},
	{"the report is composed after the greeting", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		n.give(Input{Kind: Closed, Conn: n.conn})
		n.give(Input{Kind: Returned, Held: []Held{{Key: "a", Token: n.running["a"]}}})
		delete(n.running, "a")
		w.connect("n1")
		if w.holder("a") != "" || w.holder("c") != "n1" {
			w.fail("a is with %q and c with %q; want what the report says after the greeting", w.holder("a"), w.holder("c"))
		}
	}},
	{"only the latest attachment counts", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		first, number := n.conn, n.m.number
		w.connect("n1")
		w.raw(first, "n1", Message{Type: Released, Number: number, Held: []Held{{Key: "a", Token: Token{1, 1}}}})
		if w.holder("a") != "n1" {
			w.fail("a release on an older attachment counts")
		}
		n.give(Input{Kind: Receive, Conn: first, Message: Message{Type: Assign, Tenure: 1, Number: number, Held: []Held{{Key: "d", Token: Token{1, 9}}}}})
		if _, ok := n.running["d"]; ok {
			w.fail("an assignment on an older attachment begins")
		}
		before := w.c.sessions[0].promise
		w.now += 1e6
		w.raw(first, "n1", Message{Type: Poll, Tenure: 1, Number: number, Seq: 99})
		if w.c.sessions[0].promise != before {
			w.fail("a poll on an older attachment renews")
		}
	}},
	{"reports count in the order of their numbers", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.next++
		w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n1"})
		w.raw(w.next, "n1", Message{Type: Report, Session: w.session("n1"), Number: 1, Tenure: 1})
		if w.holder("a") != "n1" || w.c.sessions[0].conn == w.next {
			w.fail("an older report counts, which arrives last")
		}
		w.raw(w.next, "n1", Message{Type: Report, Session: w.session("n1"), Number: 77, Tenure: 3})
		if w.c.sessions[0].conn == w.next {
			w.fail("a report to another tenure counts")
		}
	}},
	{"a closed connection proves nothing", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		conn := w.members["n1"].conn
		w.coordinate(Input{Kind: Closed, Conn: conn})
		if s, ok := w.standing(w.session("n1")); !ok || s.Conn != 0 || w.holder("a") != "n1" {
			w.fail("%+v; want it to hold its keys, detached", s)
		}
	}},
	{"an unproven tenure is over", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.proven = false
		w.sent = map[MessageType]int{}
		w.move("d", "n1")
		if w.resign != Unproven || len(w.sent) != 0 || w.c.NextFire() != protocol.Never {
			w.fail("%q, %v sent; want it over", w.resign, w.sent)
		}
	}},
	{"the claim counts from the send of the poll that was answered", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		w.lose = func(from, _ string, _ *Message) bool { return from == "n1" }
		w.now = n.m.pollAt
		n.give(Input{Kind: Fire})
		at, seq := w.now, n.m.seq
		w.now += 1e8
		n.give(Input{Kind: Receive, Conn: n.conn, Message: Message{Type: Enrol, Tenure: 1, Number: n.m.number, Registry: &Registry{Tenure: 1, Version: 90}}})
		w.now += 1e8
		n.give(Input{Kind: Receive, Conn: n.conn, Message: Message{Type: Answer, Tenure: 1, Number: n.m.number, Seq: seq, Promise: w.set.Promise}})
		if want := at.Add(w.set.Drift.Claim(w.set.Promise)); n.m.View().Claim != want {
			w.fail("the claim ends at %v; want %v", n.m.View().Claim, want)
		}
		n.give(Input{Kind: Receive, Conn: n.conn, Message: Message{Type: Answer, Tenure: 1, Number: n.m.number, Seq: n.m.seq, Promise: time.Hour}})
		if want := w.now.Add(-1e8).Add(w.set.Drift.Claim(w.set.Promise)); n.m.View().Claim != want {
			w.fail("the claim ends at %v; want %v, by the member's own promise", n.m.View().Claim, want)
		}
	}},
	{"a poll renews the promise, and a report for longer", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.now += 1e6
		w.members["n1"].m.pollAt = w.now
		w.members["n1"].give(Input{Kind: Fire})
		w.run()
		if s, _ := w.standing(w.session("n1")); s.Promise != w.now.Add(w.set.Promise) {
			w.fail("promised until %v at %v", s.Promise, w.now)
		}
		w.connect("n1")
		if s, _ := w.standing(w.session("n1")); s.Promise != w.now.Add(w.set.Cover) {
			w.fail("a report is promised until %v at %v", s.Promise, w.now)
		}
	}},
	{"a key goes only to who is admitted, attached and wants it", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.start("n3", 3)
		w.lose = func(_, to string, msg *Message) bool { return to == "n3" && msg.Type == Admit }
		w.want("n3", "d")
		w.connect("n3")
		w.move("d", "n3")
		if w.holder("d") != "" || len(n.running) != 0 {
			w.fail("d goes to one that does not know of its admission")
		}
		w.lose = nil
		w.sleep(w.set.Poll)
		w.move("b", "n3")
		if w.holder("b") != "n2" {
			w.fail("b goes to one that does not want it")
		}
		w.coordinate(Input{Kind: Closed, Conn: n.conn})
		w.move("d", "n3")
		if w.holder("d") != "" {
			w.fail("d goes to one that is not attached")
		}
		w.connect("n3")
		w.move("d", "n3")
		if w.holder("d") != "n3" || len(n.running) != 1 {
			w.fail("d does not go to one that is admitted, attached and wants it")
		}
		n.give(Input{Kind: Choose, Traits: &Traits{Draining: true}})
		n.give(Input{Kind: Choose, Wants: []Want{{Key: "b"}}})
		w.run()
		w.move("b", "n3")
		if w.holder("b") != "" {
			w.fail("b goes to %q; want to nobody, because n3 is draining", w.holder("b"))
		}
	}},
	{"what is assigned too late is released", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		w.lose = func(_, to string, msg *Message) bool { return to == "n1" && msg.Type == Answer }
		w.sleep(n.m.View().Claim.Add(-w.set.Drain).Sub(w.now))
		w.move("d", "n1")
		if len(n.running) != 0 || w.holder("d") != "" {
			w.fail("%v, holder %q; want it released", n.running, w.holder("d"))
		}
	}},
	{"stop, join, release", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		n.hang = true
		w.move("a", "n2")
		if len(n.stopped) != 1 || w.holder("a") != "n1" || len(w.members["n2"].running) != 1 {
			w.fail("%v, holder %q; want it stopped and still held", n.stopped, w.holder("a"))
		}
		w.sleep(10 * time.Second)
		if w.holder("a") != "n1" {
			w.fail("released before the work has returned")
		}
		delete(n.running, "a")
		n.give(Input{Kind: Returned, Held: []Held{{Key: "a", Token: Token{1, 1}, State: []byte("left")}}})
		w.run()
		if w.holder("a") != "n2" || string(w.members["n2"].got["a"]) != "left" {
			w.fail("holder %q, state %q; want n2 with what n1 left", w.holder("a"), w.members["n2"].got["a"])
		}
	}},
	{"a release counts for its token", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		w.raw(n.conn, "n1", Message{Type: Released, Number: n.m.number, Held: []Held{{Key: "a", Token: Token{1, 2}}, {Key: "b", Token: Token{1, 1}}}})
		if w.holder("a") != "n1" || w.holder("b") != "n2" {
			w.fail("a release of another token, or of another's key, counts")
		}
	}},
	{"a report frees what it leaves out, and another's key is revoked", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.next++
		w.conns[w.next] = nil
		w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n1"})
		w.sent = map[MessageType]int{}
		w.raw(w.next, "n1", Message{
			Type: Report, Session: w.session("n1"), Number: 50, Tenure: 1, Admitted: true, Wants: []Want{{Key: "d"}},
			Held: []Held{{Key: "a", Token: Token{1, 1}}, {Key: "b", Token: Token{1, 7}}},
		})
		if w.holder("a") != "n1" || w.holder("b") != "n2" || w.holder("c") != "" || w.sent[Revoke] != 1 {
			w.fail("a %q, b %q, c %q, %v", w.holder("a"), w.holder("b"), w.holder("c"), w.sent)
		}
		var wanted []Key
		for _, k := range []Key{"a", "b", "c", "d"} {
			for s := range w.wanted(k) {
				if s.Member == "n1" {
					wanted = append(wanted, k)
				}
			}
		}
		if fmt.Sprint(wanted) != "[d]" {
			w.fail("n1 wants %v; want what the report says", wanted)
		}
	}},
	{"goodbye frees at once, and tells when it will be back", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		n := w.members["n1"]
		n.give(Input{Kind: Choose, Traits: &Traits{Back: 7 * time.Second}})
		n.hang = true
		n.give(Input{Kind: Leave})
		w.run()
		if len(n.stopped) != 1 || w.holder("a") != "n1" {
			w.fail("%v; want the work stopped, and the key held until it has returned", n.stopped)
		}
		delete(n.running, "a")
		n.give(Input{Kind: Returned, Held: []Held{{Key: "a", Token: Token{1, 1}}}})
		w.run()
		away := w.c.Away(nil)
		if _, ok := w.standing(Session{"n1", protocol.Nonce{1, 7}, 1}); ok || w.holder("a") != "" || len(away) != 1 || away[0].Until != w.now.Add(7*time.Second) {
			w.fail("holder %q, away %v; want the session over", w.holder("a"), away)
		}
		w.dies("n1")
		w.sleep(6 * time.Second)
		if len(w.c.Away(nil)) != 1 {
			w.fail("forgotten too early")
		}
		w.sleep(2 * time.Second)
		if len(w.c.Away(nil)) != 0 {
			w.fail("never forgotten")
		}
	}},
}

// wanted is who wants a key.
func (w *world) wanted(k Key) func(yield func(Session, int) bool) {
	return func(yield func(Session, int) bool) { w.c.Wanted(k, yield) }
}

func TestValidate(t *testing.T) {
	if err := (&MemberConfig{Settings: settings()}).Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says   string
		change func(*Settings)
	}{
		{"a promise of 0s", func(s *Settings) { s.Promise = 0 }},
		{"a promise of 25h", func(s *Settings) { s.Promise, s.Cover = 25*time.Hour, 25*time.Hour }},
		{"a cover of 2s; want at least the promise, 3s", func(s *Settings) { s.Cover = 2 * time.Second }},
		{"a poll every 0s", func(s *Settings) { s.Poll = 0 }},
		{"want more than the drain and 2 polls, 200ms + 2 · 2s = 4.2s", func(s *Settings) { s.Poll = 2 * time.Second }},
		{"a drain of -1s", func(s *Settings) { s.Drain = -time.Second }},
		{"-1 vouchers", func(s *Settings) { s.Vouchers = -1 }},
		{"17 bits", func(s *Settings) { s.Bits = 17 }},
		{"0 bits", func(s *Settings) { s.Bits = 0 }},
		{"drift", func(s *Settings) { s.Drift.PPM = -1 }},
	} {
		set := settings()
		c.change(&set)
		_, err := NewMember(MemberConfig{Settings: set, ID: "n1"})
		_, again := NewCoordinator(CoordinatorConfig{Settings: set})
		if err == nil || again == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, %v; want %q", err, again, c.says)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 129)} {
		if _, err := NewMember(MemberConfig{Settings: settings(), ID: protocol.NodeID(id)}); err == nil {
			t.Errorf("an id of %d bytes is taken", len(id))
		}
	}
}
