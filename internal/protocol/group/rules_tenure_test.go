package group

import (
	"fmt"
	"time"

	"github.com/electd/elect/internal/protocol"
)

// rulesOfRegistries are G7 to G10.
var rulesOfRegistries = []rule{
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
	{"session: no other member speaks for a process", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2", "n3")
		other := w.session("n1")
		other.Member = "n2"
		speak := func() {
			for _, m := range []Message{{Type: Report, Tenure: 1, Number: 98}, {Type: Report, Tenure: 2, Number: 98}, {Type: Goodbye, Number: 99}} {
				m.Session = other
				w.next++
				w.coordinate(Input{Kind: Opened, Conn: w.next, From: "n2"})
				w.raw(w.next, "n2", m)
				other.Epoch++
			}
		}
		speak()
		if k, _ := w.c.Key("a"); k.Session.Member != "n1" {
			w.fail("%+v; want it held by n1, whose process n2 has only heard of", k)
		}
		w.begin(2, "n2", "n3")
		speak()
		if w.c.Covered() {
			w.fail("cover ends by a word of n2 about the process of n1, which may hold a key")
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
}

// rulesOfTenures are G11 to G14, and what is asked of a coordinator.
var rulesOfTenures = []rule{
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
		w.sleep(10 * time.Second)
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
		w.begin(2, "n1")
		w.sleep(20 * time.Second)
		if w.resign != "" {
			w.fail("%q; want the next one to stay, because the others are gone for good", w.resign)
		}
	}},
	{"deserted from the beginning", func(mutate mutation) {
		set := settings()
		set.Vouchers = 1
		w := ready(mutate, set, "n1", "n2", "n3")
		w.sleep(10 * time.Second)
		for _, id := range []protocol.NodeID{"n1", "n3"} {
			w.dies(id)
		}
		w.begin(2, "n2") // which is no voucher, and knows only how many there were
		w.sleep(6900 * time.Millisecond)
		if w.resign != "" {
			w.fail("%q too early", w.resign)
		}
		w.sleep(200 * time.Millisecond)
		if w.resign != Deserted {
			w.fail("%q; want it to resign", w.resign)
		}
		w.begin(3, "n2")
		w.sleep(20 * time.Second)
		if w.resign != "" {
			w.fail("%q; want the next one to stay, because the others are gone for good", w.resign)
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
	{"a shorter cover than a promise in use is refused", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1")
		w.begin(1, "n1")
		w.set.Promise, w.set.Cover = time.Second, 2*time.Second
		w.set.Poll, w.set.Drain = 100*time.Millisecond, 50*time.Millisecond
		w.start("n2", 2)
		w.connect("n2")
		if w.sent[Refuse] != 1 || len(w.c.Sessions(nil)) != 1 {
			w.fail("%v; want it refused", w.sent)
		}
		w.sleep(time.Minute)
		w.set = settings()
		w.set.Promise = w.set.Cover // two that fit the coordinator, and not each other
		w.start("n3", 3)
		w.connect("n3")
		w.set.Promise, w.set.Cover = 3*time.Second, 3*time.Second
		w.start("n4", 4)
		w.connect("n4")
		if s, ok := w.standing(w.session("n3")); w.sent[Refuse] != 2 || !ok || !s.Admitted {
			w.fail("%v, %+v; want the later one of two refused that do not fit each other", w.sent, s)
		}
	}},
	{"of two in cover that do not fit, one is admitted", func(mutate mutation) {
		w := newWorld(mutate, settings())
		w.set.Promise = w.set.Cover
		w.start("n1", 1)
		w.set.Promise, w.set.Cover = 3*time.Second, 3*time.Second
		w.start("n2", 2)
		w.set = settings()
		w.begin(1, "n1", "n2")
		w.sleep(5 * time.Second)
		if n := w.sent[Refuse]; n != 1 || !w.members["n1"].m.View().Admitted || w.members["n2"].m.View().Admitted {
			w.fail("%d refused; want n2 refused, and n1 admitted", n)
		}
	}},
	{"a coordinator that does not fit members with keys gives way", func(mutate mutation) {
		for _, d := range []time.Duration{time.Second, 9 * time.Second} {
			w := ready(mutate, settings(), "n1", "n2")
			w.sent = map[MessageType]int{}
			w.set.Promise, w.set.Cover = d, d
			w.set.Poll, w.set.Drain = d/10, d/20
			w.begin(2, "n1")
			if w.resign != Misfit || w.aside < 2*d || w.sent[Refuse] != 0 || len(w.members["n1"].running) != 2 {
				w.fail("with %v: %q, %v, %v; want it to resign, and to refuse nobody", d, w.resign, w.aside, w.sent)
			}
			w.start("n3", 3)
			w.begin(3, "n3")
			w.sleep(10 * time.Second)
			w.sent = map[MessageType]int{}
			w.connect("n2")
			if w.resign != "" || w.sent[Refuse] != 1 {
				w.fail("with %v: %q, %v; want it refused after cover", d, w.resign, w.sent)
			}
		}
	}},
	{"cover is as long as that of the coordinator before", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1")
		w.led("n1", 1, "", 9*time.Second)
		w.before = w.members["n1"].m.Cover()
		w.begin(2)
		w.sleep(8900 * time.Millisecond)
		if w.c.Covered() {
			w.fail("cover is over after %v; want it to last for 9 s", 8900*time.Millisecond)
		}
		w.sleep(100 * time.Millisecond)
		if !w.c.Covered() {
			w.fail("cover goes on after 9 s")
		}
	}},
	{"a short tenure does not end the longer cover of the one before", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1", "n2")
		w.begin(1)
		covers := func(id protocol.NodeID, want time.Duration, when string) {
			if got := w.members[id].m.Cover(); got != want {
				w.fail("the cover of %s is %v; want %v %s", id, got, want, when)
			}
		}
		w.led("n1", 1, "", 9*time.Second)
		w.led("n1", 2, "", w.set.Cover)
		w.sleep(time.Second)
		w.led("n1", 3, "", w.set.Cover)
		w.sleep(7900 * time.Millisecond)
		w.led("n1", 0, "", 0)
		covers("n1", 9*time.Second, "while claims of the first tenure may live")
		w.sleep(100 * time.Millisecond)
		w.led("n1", 4, "n1", 0)
		covers("n1", w.set.Cover, "after that")
		// One that has not seen the first tenure learns from the second one's wait.
		w.members["n2"].give(Input{Kind: Led, Tenure: 2, Cover: w.set.Cover, Wait: 9 * time.Second})
		w.sleep(time.Second)
		w.led("n2", 3, "n2", 0)
		covers("n2", 9*time.Second, "when it is told so")
		w.sleep(8 * time.Second)
		w.led("n2", 0, "", 0)
		covers("n2", w.set.Cover, "after that")
	}},
	{"an observer's cover does not count", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1")
		w.begin(1, "n1")
		w.set.Promise, w.set.Cover = time.Second, time.Second
		w.set.Poll, w.set.Drain = 100*time.Millisecond, 50*time.Millisecond
		w.observer = true
		w.start("n2", 2)
		w.connect("n2")
		w.sleep(10 * time.Second)
		if w.sent[Refuse] != 0 || !w.members["n2"].m.View().Admitted {
			w.fail("%v; want it admitted", w.sent)
		}
	}},
	{"who stands", func(mutate mutation) {
		w := newWorld(mutate, settings(), "n1", "n2", "n3")
		stands := func(id protocol.NodeID, want bool, when string) {
			if got := w.members[id].m.Stands(); got != want {
				w.fail("%s stands: %v; want %v %s", id, got, want, when)
			}
		}
		stands("n1", false, "before E was seen")
		w.led("n1", 0, "", 0)
		stands("n1", true, "when nobody leads")
		w.led("n1", 1, "n1", w.set.Cover)
		stands("n1", true, "when it leads")
		unseen := Input{Kind: Unseen}
		w.members["n1"].give(unseen)
		stands("n1", true, "when it leads and E cannot be observed")
		w.led("n2", 1, "n1", w.set.Cover)
		stands("n2", false, "before it is admitted")
		w.begin(1, "n1", "n2")
		w.sleep(w.set.Cover + w.set.Poll)
		stands("n2", true, "when it is admitted")
		w.led("n2", 2, "n1", 5*time.Second)
		stands("n2", true, "when a later coordinator has not refused it")
		refuse := func() {
			w.members["n2"].give(Input{Kind: Receive, Message: Message{Type: Refuse, Tenure: 2, Misfit: true}})
		}
		w.lose = func(_, to string, _ *Message) bool { return to == "n2" }
		refuse()
		stands("n2", false, "when it is refused")
		w.sleep(time.Minute)
		stands("n2", false, "while another one leads")
		w.led("n2", 0, "", 0)
		for range 9 {
			w.sleep(500 * time.Millisecond)
			refuse() // by one that was coordinator before
			stands("n2", false, "soon after it was refused")
		}
		w.sleep(501 * time.Millisecond)
		stands("n2", true, "when nobody leads for as long as the cover of the last one")
		w.led("n2", 3, "n2", w.set.Cover)
		stands("n2", true, "when it is elected because nobody else was")
		w.led("n3", 1, "n1", w.set.Cover)
		w.sleep(time.Minute)
		stands("n3", false, "when it hears nothing of the coordinator that E shows")
		w.members["n3"].give(unseen)
		stands("n3", false, "when E cannot be observed any more")
		w.sleep(w.set.Cover + 1)
		stands("n3", true, "when nothing was seen or heard for as long as its cover")
		w.led("n3", 2, "n1", w.set.Cover)
		stands("n3", false, "when there is another one")
		w.led("n3", 0, "", 0)
		stands("n3", true, "when nobody leads again")
		w.members["n3"].give(unseen)
		stands("n3", false, "when it saw that nobody leads, and sees nothing now")
		w.lose = func(_, to string, _ *Message) bool { return true }
		w.members["n1"].give(unseen)
		w.sleep(w.set.Promise)
		stands("n1", false, "when the session is over that it had when it led")
		w.sleep(w.set.Cover)
		stands("n1", true, "when nothing was seen for as long as its cover")
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
	{"a key that nobody wants is forgotten, its numbers are not", func(mutate mutation) {
		w := ready(mutate, settings(), "n1", "n2")
		w.move("a", "n2")
		for _, id := range []protocol.NodeID{"n1", "n2"} {
			w.members[id].give(Input{Kind: Choose, Unwants: []Key{"a"}})
			w.run()
		}
		if _, ok := w.c.Key("a"); ok {
			w.fail("a is known, and nobody wants it")
		}
		w.want("n1", "a", "z")
		w.move("a", "n1")
		w.move("z", "n1")
		if n := w.members["n1"]; n.running["a"] != (Token{1, 3}) || n.running["z"] != (Token{1, 3}) {
			w.fail("%v; want numbers above those that were given", n.running)
		}
		// The keys of members that died are forgotten when there are many.
		for i := range 40 {
			id := protocol.NodeID(fmt.Sprintf("m%d", i))
			w.start(id, 100+uint64(i))
			w.want(id, Key("only "+id))
			w.connect(id)
			w.coordinate(Input{Kind: Dead, Session: w.dies(id)})
		}
		known := 0
		for range w.c.Keys {
			known++
		}
		if known > 30 {
			w.fail("%d keys are known", known)
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
