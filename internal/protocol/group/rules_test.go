package group

import (
	"fmt"
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

var rules = []rule{
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
		if v.Session.Epoch != 2 || v.Claim != protocol.Always || v.Admitted || len(n.m.portions.over) != 2 {
			w.fail("%+v after %v; want epoch 2 without a claim and not admitted, and 2 overruns", v, late)
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
	{"cover", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.dies("n2")
		w.begin(2, "n1")
		if k, _ := w.c.Key("a"); k.Session.Member != "n1" || k.Token != (Token{1, 1}) {
			w.fail("%+v; want it adopted", k)
		}
		w.sleep(w.set.Cover - 1)
		if w.c.Covered() {
			w.fail("cover ends early, although n2 may hold a key")
		}
		w.sleep(1)
		if !w.c.Covered() {
			w.fail("cover does not end")
		}
	}},
	{"account: all of it are there, or over", func(mutate mutation) {
		for _, how := range []string{"attached", "dead", "goodbye", "newer epoch"} {
			w := ready(mutate, settings(), "n1", "n2", "n3")
			gone := w.session("n3")
			w.begin(2, "n1", "n2")
			if w.c.Covered() {
				w.fail("cover ends although n3 is missing")
			}
			switch how {
			case "attached":
				w.connect("n3")
			case "dead":
				w.coordinate(Input{Kind: Dead, Session: gone})
			case "goodbye":
				w.next++
				w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n3"})
				w.raw(w.next, "n3", Message{Type: Goodbye, Session: gone, Number: 9})
			case "newer epoch":
				gone.Epoch++
				w.next++
				w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n3"})
				w.raw(w.next, "n3", Message{Type: Report, Session: gone, Number: 9, Tenure: 2})
			}
			if !w.c.Covered() {
				w.fail("%s: cover goes on", how)
			}
		}
	}},
	{"account: nobody vouches that is not admitted", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1", "n2")
		w.begin(1, "n1", "n2")
		if w.c.Covered() {
			w.fail("cover ends without a voucher")
		}
		w.next++
		w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n9"})
		s := Session{"n9", protocol.Nonce{9, 9}, 1}
		w.raw(w.next, "n9", Message{Type: Report, Session: s, Number: 1, Tenure: 1, Registry: &Registry{Tenure: 0, Version: 1, Sessions: []Session{s}}})
		if w.c.Covered() {
			w.fail("one that is not admitted vouches")
		}
	}},
	{"admission waits for all vouchers", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		w.lose = func(from, _ string, msg *Message) bool { return from == "n2" && msg.Type == Poll }
		w.start("n4", 4)
		w.connect("n4")
		if w.members["n4"].m.View().Admitted {
			w.fail("admitted before n2 has acknowledged the registry")
		}
		w.coordinate(Input{Kind: Closed, Conn: w.members["n2"].conn})
		w.start("n5", 5)
		w.connect("n5")
		if w.members["n4"].m.View().Admitted {
			w.fail("admitted because n2 is detached")
		}
		w.lose = func(_, _ string, msg *Message) bool {
			if msg.Type == Admit && (msg.Registry == nil || len(msg.Registry.Sessions) != 5) {
				w.fail("admitted with %+v; want the registry of now", msg.Registry)
			}
			return false
		}
		w.connect("n2")
		w.sleep(2 * w.set.Poll)
		for _, id := range []protocol.NodeID{"n4", "n5"} {
			if !w.members[id].m.View().Admitted {
				w.fail("%s is not admitted when all have acknowledged", id)
			}
		}
	}},
	{"an inherited session is a voucher", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.lose = func(from, _ string, msg *Message) bool { return from == "n2" && msg.Type == Poll }
		w.start("n3", 3)
		w.begin(2, "n3", "n1", "n2")
		if !w.c.Covered() || w.members["n3"].m.View().Admitted {
			w.fail("covered %v, %+v; want n3 not admitted before n2 has acknowledged", w.c.Covered(), w.members["n3"].m.View())
		}
		w.lose = nil
		w.sleep(2 * w.set.Poll)
		if !w.members["n3"].m.View().Admitted {
			w.fail("n3 is not admitted when n2 has acknowledged")
		}
	}},
	{"few vouchers", func(mutate mutation) {
		set := settings()
		set.Vouchers = 2
		w := ready(mutate, set, "n1", "n2", "n3", "n4")
		vouchers := func() (all []protocol.NodeID) {
			for _, s := range w.c.Sessions(nil) {
				if s.Voucher {
					all = append(all, s.Session.Member)
				}
			}
			return all
		}
		if fmt.Sprint(vouchers()) != "[n1 n2]" || w.members["n3"].m.registry != nil {
			w.fail("%v; want two vouchers, and only they keep the registry", vouchers())
		}
		w.coordinate(Input{Kind: Dead, Session: w.dies("n1")})
		w.run()
		if fmt.Sprint(vouchers()) != "[n2 n3]" || w.members["n3"].m.registry == nil {
			w.fail("%v; want another instead of n1, which is told the registry", vouchers())
		}
		w.begin(2, "n4", "n3")
		if w.c.Covered() {
			w.fail("cover ends without n2")
		}
		w.connect("n2")
		if !w.c.Covered() || fmt.Sprint(vouchers()) != "[n2 n3]" {
			w.fail("%v, %v; want cover ended by account, and the same vouchers", w.c.Covered(), vouchers())
		}
	}},
	{"an admission is repeated until it is seen", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1")
		lost := 0
		w.lose = func(_, _ string, msg *Message) bool {
			if msg.Type == Admit {
				lost++
			}
			return msg.Type == Admit && lost < 3
		}
		w.begin(1, "n1")
		w.sleep(w.set.Cover + 3*w.set.Poll)
		if s, _ := w.standing(w.session("n1")); !s.Admitted || lost != 3 {
			w.fail("%+v after %d; want it admitted by the third", s, lost)
		}
		w.connect("n1")
		if s, _ := w.standing(w.session("n1")); !s.Admitted {
			w.fail("%+v; want it admitted after it has attached again", s)
		}
	}},
	{"a report without it takes an admission back", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.next++
		w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n1"})
		w.sent = map[MessageType]int{}
		w.raw(w.next, "n1", Message{Type: Report, Session: w.session("n1"), Number: 50, Tenure: 1})
		if s, _ := w.standing(w.session("n1")); s.Admitted || w.sent[Admit] != 1 {
			w.fail("%+v, %v sent; want it admitted anew", s, w.sent)
		}
	}},
	{"numbers of assignments", func(mutate mutation) {
		set := settings()
		set.Bits = 2
		w := ready(mutate, set, "n1", "n2")
		w.move("a", "n2")
		w.move("a", "n1")
		if w.members["n1"].running["a"] != (Token{1, 3}) || w.members["n1"].running["c"] != (Token{1, 1}) {
			w.fail("%v; want numbers to count for each key", w.members["n1"].running)
		}
		w.move("a", "n2")
		if w.resign != UsedUp {
			w.fail("%q; want it to resign before the numbers overflow", w.resign)
		}
		w.begin(1<<46, "n1")
		if w.resign != TooGreat {
			w.fail("%q; want a count that leaves no bits refused", w.resign)
		}
		w.begin(3<<48|1, "n1", "n2")
		w.move("a", "n1")
		if w.resign != "" {
			w.fail("%q; want an era to be no count", w.resign)
		}
	}},
	{"an adopted key's next holder has the new tenure", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.begin(2, "n1", "n2")
		w.move("a", "n2")
		if w.members["n2"].running["a"] != (Token{2, 1}) {
			w.fail("%v; want a token of tenure 2", w.members["n2"].running)
		}
	}},
	{"deserted", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		for _, id := range []protocol.NodeID{"n2", "n3"} {
			w.dies(id)
		}
		w.sleep(5600 * time.Millisecond)
		if w.resign != "" {
			w.fail("%q too early", w.resign)
		}
		w.sleep(700 * time.Millisecond)
		if w.resign != Deserted || w.aside != 6*time.Second {
			w.fail("%q, %v; want it to resign and stand aside", w.resign, w.aside)
		}
		// The member that is left tells the next coordinator that there were others.
		w.begin(2, "n1")
		w.sleep(7 * time.Second)
		if w.resign != Deserted {
			w.fail("%q; want the next one to resign too", w.resign)
		}
	}},
	{"not deserted", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3", "n4")
		for _, id := range []protocol.NodeID{"n4", "n3", "n2"} {
			w.dies(id) // one after the other
			w.sleep(20 * time.Second)
		}
		if w.resign != "" {
			w.fail("%q; want it to go on when members go one by one", w.resign)
		}
		w = ready(mutate, settings(), "n1", "n2", "n3")
		for _, id := range []protocol.NodeID{"n2", "n3"} {
			w.members[id].give(Input{Kind: Leave})
			w.run()
			w.dies(id)
		}
		w.sleep(20 * time.Second)
		if w.resign != "" {
			w.fail("%q; want it to go on when members have said goodbye", w.resign)
		}
	}},
	{"a longer promise than its cover is refused", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1")
		w.begin(1)
		w.set.Promise, w.set.Cover = 5*time.Second, 5*time.Second
		w.start("n2", 2)
		w.connect("n2")
		if w.sent[Refuse] != 1 || len(w.c.Sessions(nil)) != 0 {
			w.fail("%v; want it refused", w.sent)
		}
		w.set = settings()
		w.start("n3", 3)
		w.next++
		w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n3"})
		w.raw(w.next, "n3", Message{Type: Report, Session: Session{"n4", protocol.Nonce{1, 1}, 1}, Number: 1, Tenure: 1})
		if w.sent[Refuse] != 2 {
			w.fail("%v; want a report of another's session refused", w.sent)
		}
	}},
	{"a jump of the clock ends a session", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		n := w.members["n1"]
		w.jump = 1e6
		n.give(Input{Kind: Fire})
		if v := n.m.View(); v.Session.Epoch != 2 || len(n.stopped) != 2 || n.stopped["a"].Reason != protocol.ClockJump {
			w.fail("%+v, %v; want the session over", v, n.stopped)
		}
	}},
	{"a jump of the clock ends a tenure, or extends it", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.jump = 1e10
		w.coordinate(Input{Kind: Fire})
		if w.resign != Jumped {
			w.fail("%q; want it to resign", w.resign)
		}
		w = newWorld(mutate, settings(), "n1")
		w.clocked = true
		w.begin(1, "n1")
		w.jump = 1e10
		w.coordinate(Input{Kind: Fire})
		if s := w.c.Sessions(nil); w.resign != "" || w.c.Covered() || len(s) != 1 || s[0].Promise != w.reading().Boot.Add(w.set.Cover) {
			w.fail("%q, %+v; want cover and promises extended", w.resign, s)
		}
	}},
	{"a coordinator that resigns waits for its vouchers", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		w.lose = func(from, _ string, msg *Message) bool { return from == "n2" && msg.Type == Poll }
		w.members["n1"].give(Input{Kind: Leave})
		w.run()
		w.coordinate(Input{Kind: Resign})
		w.run()
		if w.resign != "" {
			w.fail("%q before n2 has acknowledged that n1 has left", w.resign)
		}
		w.move("d", "n2")
		if w.holder("d") != "" {
			w.fail("it assigns while it resigns")
		}
		w.lose = nil
		w.sleep(w.set.Poll)
		if w.resign != Resigned {
			w.fail("%q; want it to have resigned", w.resign)
		}
		w.begin(2, "n2", "n3")
		if !w.c.Covered() {
			w.fail("cover does not end by account after a resignation in good order")
		}
		w.lose = func(from, _ string, msg *Message) bool { return from == "n2" && msg.Type == Poll }
		w.coordinate(Input{Kind: Dead, Session: w.session("n3")})
		w.coordinate(Input{Kind: Resign})
		w.sleep(2 * w.set.Poll)
		if w.resign != Unanswered {
			w.fail("%q; want it to resign although n2 does not answer", w.resign)
		}
	}},
	{"moves", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		n := w.members["n1"]
		n.hang = true
		w.move("a", "n2")
		w.move("a", "n3") // another one
		if k, _ := w.c.Key("a"); k.Reserved.Member != "n3" || len(n.stopped) != 1 {
			w.fail("%+v, %v; want it reserved for n3", k, n.stopped)
		}
		w.changes = nil
		w.coordinate(Input{Kind: Moves, Moves: []Move{{Key: "b", From: w.session("n1"), To: w.session("n3")}, {Key: "unknown", To: w.session("n3")}}})
		if w.holder("b") != "n2" || len(w.changes) != 1 || w.changes[0].Session.Member != "n2" {
			w.fail("holder %q, %v; want a stale move dropped, and told", w.holder("b"), w.changes)
		}
		w.members["n3"].give(Input{Kind: Choose, Unwants: []Key{"a"}})
		w.run()
		delete(n.running, "a")
		n.give(Input{Kind: Returned, Held: []Held{{Key: "a", Token: Token{1, 1}}}})
		w.run()
		if k, _ := w.c.Key("a"); k.Session != (Session{}) || k.Reserved != (Session{}) {
			w.fail("%+v; want it free, because n3 does not want it any more", k)
		}
		w.move("b", "")
		if w.holder("b") != "" {
			w.fail("holder %q; want it taken back", w.holder("b"))
		}
	}},
	{"an older tenure is not obeyed", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.begin(7, "n1", "n2")
		w.begin(5, "n1")
		if v := w.members["n1"].m.View(); v.Tenure != 7 || len(w.members["n1"].fx.Closes) != 1 {
			w.fail("%+v; want it to stay with tenure 7", v)
		}
	}},
	{"a coordinator forgets its tenure before", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.proven = false
		w.coordinate(Input{Kind: Fire})
		w.proven, w.resign = true, ""
		w.coordinate(Input{Kind: Begin, Tenure: 2})
		w.coordinate(Input{Kind: Fire})
		if len(w.c.Sessions(nil)) != 0 && w.c.Covered() {
			w.fail("a machine is used again")
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
