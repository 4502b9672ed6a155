package group

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/store/memory"
)

// liar is a member's or a client's end of a connection that says whatever a test wants.
type liar struct {
	t  testing.TB
	nc net.Conn
	r  *wire.Reader
	mu sync.Mutex // of writes
}

// lie says hello to the coordinator on a connection.
func lie(t testing.TB, nc net.Conn, hello wire.Hello) (*liar, *wire.Welcome) {
	l := &liar{t: t, nc: nc, r: wire.NewReader(nc)}
	if err := l.send(wire.Packet{Hello: &hello}); err != nil {
		t.Fatal(err)
	}
	p, err := l.r.Next()
	if err != nil {
		t.Fatal(err)
	}
	l.r.Open()
	return l, p.Welcome
}

func (l *liar) send(p wire.Packet) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.nc.Write(encoded(p))
	return err
}

// encoded returns what a connection carries for some packets.
func encoded(all ...wire.Packet) (b []byte) {
	for i := range all {
		_, _ = wire.Frames(nil, wire.Append(nil, &all[i]), func(frame []byte) error { b = append(b, frame...); return nil }, func() error { return nil })
	}
	return b
}

func (l *liar) call(n uint64, method string, q any) error {
	body, err := json.Marshal(q)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.send(wire.Packet{Side: &wire.Side{Kind: wire.Call, Call: n, Method: method, Body: body}})
}

// next returns the next packet that is wanted.
func (l *liar) next(is func(wire.Packet) bool) wire.Packet {
	l.t.Helper()
	for {
		p, err := l.r.Next()
		if err != nil {
			l.t.Fatal(err)
		}
		if is(p) {
			return p
		}
	}
}

func isReply(p wire.Packet) bool { return p.Side != nil && p.Side.Kind == wire.Reply }

// lieAs connects with a member of a world.
func (w *world) lieAs(at *part, id string, control bool) (*liar, *wire.Welcome) {
	nc, err := w.net.dial(id)(w.t.Context(), at.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	hello := *at.hello()
	hello.ID, hello.Control, hello.Addr = id, control, ""
	return lie(w.t, nc, hello)
}

// TestConnectionsOfOneMember: a member, and one who asks, have so many connections, and the others find room.
func TestConnectionsOfOneMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", nil)
		w.until("a coordinator", 10*time.Second, func() bool { return a.Measure().Coordinates })
		for _, c := range []struct {
			id      string
			control bool
			most    int
			says    string
		}{
			{"liar", false, maxMemberConns, "64 connections of liar are open; want at most 64 with one id"},
			{"asks", true, maxClientConns, "1024 connections of asks are open; want at most 1024 with one id"},
		} {
			var open []*liar
			for range c.most {
				l, welcome := w.lieAs(a, c.id, c.control)
				if welcome.Refused != "" {
					t.Fatal(welcome.Refused)
				}
				a.acceptor.mu.Lock()
				unknown := a.acceptor.unknown
				a.acceptor.mu.Unlock()
				if unknown > 0 {
					t.Fatal("a connection that has its welcome is counted as one that has not said who it is")
				}
				open = append(open, l)
			}
			if _, welcome := w.lieAs(a, c.id, c.control); welcome.Refused != c.says || welcome.Misfit {
				t.Errorf("refused with %+v; want %q, and no misfit", welcome, c.says)
			}
			if _, welcome := w.lieAs(a, "other", c.control); welcome.Refused != "" {
				t.Errorf("another one is refused: %s", welcome.Refused)
			}
			for _, l := range open {
				_ = l.nc.Close()
			}
			synctest.Wait()
			if _, welcome := w.lieAs(a, c.id, c.control); welcome.Refused != "" {
				t.Errorf("refused when the others have ended: %s", welcome.Refused)
			}
		}
	})
}

// TestRequestsOfOneConnection: requests that wait, and keys that are watched, are counted for each connection.
func TestRequestsOfOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := a.Status(ctx); err != nil {
			t.Fatal(err)
		}
		l, _ := w.lieAs(a, "asks", true)
		for n := range uint64(maxCalls + 1) {
			if err := l.call(n+1, "status", request{After: 1 << 40}); err != nil {
				t.Fatal(err)
			}
		}
		if p := l.next(isReply); p.Side.Call != maxCalls+1 || string(p.Side.Body) != "1024 requests of this connection wait; want at most 1024 at a time" {
			t.Errorf("%d is answered with %s", p.Side.Call, p.Side.Body)
		}
		all := make([]wire.Entry, maxClientWatches+2)
		for i := range all {
			all[i].Key = fmt.Sprint(i)
		}
		for len(all) > 0 {
			some := all[:min(len(all), 1<<15)]
			all = all[len(some):]
			go func() { _ = l.send(wire.Packet{Side: &wire.Side{Kind: wire.WatchKeys, Entries: some}}) }()
			p := l.next(func(p wire.Packet) bool {
				return isReply(p) || p.Side != nil && p.Side.Kind == wire.States && p.Side.Entries[len(p.Side.Entries)-1].Key == some[len(some)-1].Key
			})
			if denied := isReply(p); denied != (len(all) == 0) || denied && string(p.Side.Body) != "65538 keys are watched; want at most 65536" {
				t.Errorf("%d more keys: %s", len(some), p.Side.Body)
			}
		}
		go func() { _ = l.call(7, "keys", request{Key: strings.Repeat("x", maxAsked)}) }()
		for {
			p, err := l.r.Next()
			if err != nil {
				break // the connection has ended
			}
			if isReply(p) && p.Side.Call == 7 {
				t.Fatalf("a request of two megabytes is answered: %.100s", p.Side.Body)
			}
		}
		if _, err := a.Status(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestMetadataOfOneMember: what leaders show is bounded for each key and each member.
func TestMetadataOfOneMember(t *testing.T) {
	c := &coordinator{shown: map[machine.Key]*wire.Entry{}, shownBytes: map[string]int{}}
	show := func(key string, n int) error {
		return c.show(&wire.Entry{Key: key, Member: "liar", Metadata: make([]byte, n)})
	}
	if err := show("x", maxShown+1); err == nil || len(c.shown["x"].Metadata) > 0 {
		t.Errorf("metadata of %d bytes is shown: %v", maxShown+1, err)
	}
	for i := range maxMemberShown / maxShown {
		if err := show(fmt.Sprint(i), maxShown); err != nil {
			t.Fatal(err)
		}
	}
	if err := show("0", maxShown); err != nil { // again
		t.Error(err)
	}
	if err := show("more", 1); err == nil || !strings.Contains(err.Error(), "want at most 134217728 for all its keys") {
		t.Error(err)
	}
	if err := c.show(&wire.Entry{Key: "another", Member: "other", Metadata: make([]byte, maxShown)}); err != nil {
		t.Error(err)
	}
	for k := range c.shown {
		c.unshow(k)
	}
	if len(c.shownBytes) > 0 {
		t.Errorf("%v are shown of nothing", c.shownBytes)
	}
}

// TestBacklog: a connection whose messages wait is not read any more, by number and by bytes; one alone may be long.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ size, fit int }{{1, maxQueued}, {maxQueuedBytes / 4, 3}, {2 * maxQueuedBytes, 1}} {
			b, p := newBacklog(), wire.Packet{Side: &wire.Side{Body: make([]byte, c.size)}}
			var n atomic.Int64
			ended := make(chan struct{})
			go func() {
				for b.add(&p, ended, nil) {
					n.Add(1)
				}
			}()
			for more := range 3 {
				synctest.Wait()
				if got := int(n.Load()); got != c.fit+more {
					t.Errorf("%d messages of %d bytes wait; want %d", got-more, c.size, c.fit)
				}
				b.done(&p)
			}
			close(ended)
			synctest.Wait()
		}
	})
}

// TestManyKeysAreListed: a list of keys comes in pages, and each key once.
func TestManyKeysAreListed(t *testing.T) {
	const keys = 2*pageSize + 7
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", func(c *Config) { c.Keys = Range(keys) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _ = a.Serve(ctx, func(*Shard) {}, func(*Shard) {}) }()
		w.until("all keys", 30*time.Second, func() bool { return a.Measure().Keys == keys })
		all, err := a.Group.Keys(ctx)
		seen := map[string]bool{}
		for _, k := range all {
			seen[k.Key] = true
		}
		if err != nil || len(all) != keys || len(seen) != keys {
			t.Errorf("%d keys, %d different ones, %v; want %d", len(all), len(seen), err, keys)
		}
	})
}

// TestPollsOvertake: a poll that has come is answered before the next of the messages that wait.
func TestPollsOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.member("m1", nil)
		b := w.member("m2", func(c *Config) { c.Observer = true })
		w.until("a claim", 10*time.Second, func() bool { return b.Measure().Claim > 0 })
		a.Group.mu.Lock()
		c := a.coordinator
		a.Group.mu.Unlock()
		promise := func() (until protocol.Instant) {
			for _, s := range c.machine.Sessions(nil) {
				if s.Session.Member == "m2" {
					until = s.Promise
				}
			}
			return until
		}
		var last protocol.Instant
		done := make(chan struct{})
		for i := range 5 { // each takes as long as two polls
			c.put(arrival{do: func() {
				if now := promise(); now == last {
					t.Errorf("the poll that has come is not answered before message %d", i)
				}
				last = promise()
				<-time.After(2 * b.settings.Poll)
				if i == 4 {
					close(done)
				}
			}})
		}
		<-done
	})
}

// TestFlood: one admitted connection that sends all that is expensive, without a pause, interrupts nobody: the others'
// claims are renewed in time. Time is real, because the time that the coordinator takes is what is measured.
func TestFlood(t *testing.T) {
	long.Test(t, "its 10 s are real, and it needs most of a core")
	const keys, lasts, most, enough = 400_000, 10 * time.Second, 50 * time.Second, 10
	store := memory.NewStore(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	join := func(id string) *Group {
		place, err := store.New("group", id, memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := elect.New(place, elect.Config{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := Join(ctx, e, Config{ID: id, Keys: Range(100), Placement: eager})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close() })
		go func() { _ = g.Serve(ctx, func(*Shard) {}, func(*Shard) {}) }()
		return g
	}
	a := join("m1")
	harness.Eventually(t, "a coordinator", func() bool { return a.Measure().Coordinates })
	b := join("m2")
	harness.Eventually(t, "half of the keys each", func() bool { return a.Measure().Keys == 50 && b.Measure().Keys == 50 })

	// All that is long is encoded before, and nothing decoded: the flood comes from this process, whose processors the
	// honest members need.
	report := machine.Message{Type: machine.Report, Session: machine.Session{Member: "liar", Process: protocol.Nonce{1, 2}, Epoch: 1}, Promise: time.Second}
	report.Tenure = a.member.seen.Load().Tenure
	wants, entries := make([]machine.Want, keys), make([]wire.Entry, 1000)
	for i := range wants {
		wants[i].Key = machine.Key(fmt.Sprintf("liar-%06d", i)) // in order
	}
	for i := range entries {
		entries[i].Key = fmt.Sprint("watched-", i)
	}
	report.Wants = wants
	asks := []wire.Packet{{Side: &wire.Side{Kind: wire.WatchKeys, Entries: entries}}}
	for _, method := range []string{"keys", "plan", "status", "status", "status", "status", "status", "status"} {
		asks = append(asks, wire.Packet{Side: &wire.Side{Kind: wire.Call, Call: 1, Method: method, Body: []byte("{}")}})
	}
	round := encoded(asks...)

	least, sent, conns, began := time.Hour, 0, 0, time.Now()
	var answered atomic.Int64
	over := func() bool { // a busy machine needs longer until the coordinator has had its flood
		return time.Since(began) > lasts && answered.Load() >= enough || time.Since(began) > most
	}
	flood := func() { // until the connection ends
		nc, err := net.Dial("tcp", a.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(began.Add(most))
		hello := *a.hello()
		hello.ID, hello.Keys, hello.Addr = "liar", 0, ""
		if _, err := nc.Write(encoded(wire.Packet{Hello: &hello})); err != nil {
			return
		}
		conns++
		go func() {
			for some := make([]byte, 1<<16); ; {
				n, err := nc.Read(some)
				if answered.Add(int64(bytes.Count(some[:n], fmt.Appendf(nil, `"keys":%d`, keys+100)))); err != nil {
					return
				}
				if over() {
					_ = nc.Close()
				}
			}
		}()
		report.Number++
		some := encoded(wire.Packet{Message: &report})
		for !over() {
			some = append(some, encoded(
				wire.Packet{Message: &machine.Message{Type: machine.Tell, Number: report.Number, Tenure: report.Tenure, Traits: machine.Traits{Weight: 1 + sent%7}}},
				wire.Packet{Message: &machine.Message{Type: machine.Poll, Number: report.Number, Tenure: report.Tenure, Seq: uint64(sent + 1)}},
			)...)
			if _, err := nc.Write(append(some, round...)); err != nil {
				return
			}
			some = some[:0]
			sent += len(asks) + 2
			for _, g := range []*Group{a, b} {
				least = min(least, g.Measure().Claim)
			}
		}
	}
	for !over() {
		flood()
	}
	if n := answered.Load(); n < enough {
		t.Errorf("the coordinator has answered %d times that it knows the %d keys; want at least %d answers in %v", n, keys, enough, most)
	}
	t.Logf("%d messages were sent on %d connections in %v, and %d of %d statuses answered; the shortest claim of the others was %v of %v",
		sent, conns, time.Since(began), answered.Load(), 6*sent/(len(asks)+2), least, a.settings.Drift.Claim(a.settings.Promise))
	for _, g := range []*Group{a, b} {
		if n := g.Counts(); n.Lapsed > 0 || g.Measure().Keys != 50 {
			t.Errorf("%s: %+v, %d keys; want none interrupted", g.ID(), n, g.Measure().Keys)
		}
	}
}

// TestManyUnknown: connections that do not say who they are are refused when there are too many, and the log says so.
func TestManyUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		said := &lines{text: "a connection is refused"}
		a := w.member("m1", func(c *Config) { c.Logger = slog.New(said) })
		for range maxUnknown + 3 {
			c, err := w.net.dial("stranger")(t.Context(), a.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		synctest.Wait()
		if n := said.n.Load(); n != 1 {
			t.Errorf("%d lines say that there are too many; want 1", n)
		}
	})
}
