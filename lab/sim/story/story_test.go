package story_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/trace"
	"github.com/electd/elect/lab/sim/story"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// play is a trace that is written by hand.
type play struct {
	t   *testing.T
	buf bytes.Buffer
	enc *trace.Encoder
	n   uint64
	at  time.Duration
}

func newPlay(t *testing.T, nodes ...protocol.NodeID) *play {
	t.Helper()
	p := &play{t: t}
	h := &trace.Header{Format: 1, Protocol: "quorum", Source: trace.Sim, Seed: 42}
	for _, id := range nodes {
		h.Nodes = append(h.Nodes, trace.Node{ID: id})
	}
	enc, err := trace.NewEncoder(&p.buf, h)
	if err != nil {
		t.Fatal(err)
	}
	p.enc = enc
	return p
}

func (p *play) add(e trace.Event) uint64 {
	p.t.Helper()
	p.n++
	e.N, e.At = p.n, int64(p.at)
	if err := p.enc.Event(&e); err != nil {
		p.t.Fatal(err)
	}
	return p.n
}

// step is a step of a node whose clocks are 10 s ahead and right.
func (p *play) step(id protocol.NodeID, cause uint64, in protocol.Input, v protocol.View, fx protocol.Effects) uint64 {
	p.t.Helper()
	p.at += time.Millisecond
	in.Now = protocol.Reading{Boot: p.clock(0), Mono: p.clock(0)}
	return p.add(trace.Event{Node: id, Life: 1, Kind: trace.Step, Cause: cause, Input: &in, View: &v, Effects: &fx})
}

func (p *play) clock(d time.Duration) protocol.Instant {
	return protocol.Instant(p.at + 10*time.Second + d)
}

func send(to protocol.NodeID, m protocol.Message) protocol.Send {
	return protocol.Send{To: to, Message: m}
}

// twoLeaders is a run in which two lead at once.
func twoLeaders(t *testing.T) *play {
	p := newPlay(t, "n1", "n2", "n3")
	follower := protocol.View{Role: protocol.Follower}
	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		p.step(id, 0, protocol.Input{Kind: protocol.Boot}, follower, protocol.Effects{})
	}
	vote := protocol.Message{Type: "vote", Term: 6}
	asked := p.step("n3", 0, protocol.Input{Kind: protocol.Fire}, protocol.View{Role: protocol.Candidate, Term: 6},
		protocol.Effects{Saves: []protocol.Save{{Number: 1, Data: []byte("6")}}, Sends: []protocol.Send{send("n1", vote), send("n2", vote)}})
	p.add(trace.Event{Kind: trace.Lost, Node: "n3", Life: 1, Cause: asked, Send: &protocol.Send{To: "n1", Message: vote}, Says: "the link is cut"})
	reply := protocol.Message{Type: "vote-reply", Term: 6, Granted: true}
	granted := p.step("n2", asked, protocol.Input{Kind: protocol.Receive, From: "n3", Message: vote}, protocol.View{Role: protocol.Follower, Term: 6},
		protocol.Effects{Saves: []protocol.Save{{Number: 1, Data: []byte("6")}}, Sends: []protocol.Send{{To: "n3", After: 1, Message: reply}}})
	p.step("n3", granted, protocol.Input{Kind: protocol.Receive, From: "n2", Message: reply},
		protocol.View{Role: protocol.Leader, Term: 6, Token: 6, Elected: true, NotBefore: p.clock(30 * time.Millisecond)},
		protocol.Effects{Orders: []protocol.Order{{Kind: protocol.Elected, Token: 6}}})
	p.at += 30 * time.Millisecond
	lead := protocol.View{Role: protocol.Leader, Term: 6, Token: 6, Elected: true, Active: true, LeaseEnd: p.clock(400 * time.Millisecond)}
	p.step("n3", 0, protocol.Input{Kind: protocol.Fire}, lead, protocol.Effects{Orders: []protocol.Order{{Kind: protocol.Lead, Token: 6}}})
	for range 300 { // without interest
		beat := protocol.Message{Type: "heartbeat", Term: 6, Seq: 1}
		sent := p.step("n3", 0, protocol.Input{Kind: protocol.Fire}, lead, protocol.Effects{Sends: []protocol.Send{send("n2", beat)}})
		p.add(trace.Event{Kind: trace.Work, Node: "n3", Life: 1, Says: "n3 writes with token 6: accepted"})
		_ = sent
	}
	p.add(trace.Event{Kind: trace.Fault, Node: "n3", Says: "isolate n3 for 2 s"})
	p.step("n1", 0, protocol.Input{Kind: protocol.PeerClosed, From: "n3"}, protocol.View{Role: protocol.Candidate, Term: 7}, protocol.Effects{})
	p.step("n1", 0, protocol.Input{Kind: protocol.Receive, From: "n2", Message: protocol.Message{Type: "vote-reply", Term: 7, Granted: true}},
		protocol.View{Role: protocol.Leader, Term: 7, Token: 7, Elected: true, Active: true, LeaseEnd: p.clock(150 * time.Millisecond)},
		protocol.Effects{Orders: []protocol.Order{{Kind: protocol.Elected, Token: 7}, {Kind: protocol.Lead, Token: 7}}})
	p.add(trace.Event{Kind: trace.Violation, Node: "n1", Cause: p.n, Invariant: "exclusive", Says: "its lease is proven while that of n3 is"})
	p.add(trace.Event{Kind: trace.End, Hash: "0000000000000001"})
	return p
}

func tell(t *testing.T, p *play, o story.Options) string {
	t.Helper()
	d, err := trace.NewDecoder(bytes.NewReader(p.buf.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := story.Write(&out, d, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (-rewrite writes it anew); got:\n%s", path, got)
	}
}

func TestStoryOfTwoLeaders(t *testing.T) {
	golden(t, "two-leaders.txt", tell(t, twoLeaders(t), story.Options{Lines: 20}))
}

// TestLines: a story has about the lines asked for, is complete when asked for, and has the same
// end.
func TestLines(t *testing.T) {
	p := twoLeaders(t)
	full, brief := tell(t, p, story.Options{Full: true}), tell(t, p, story.Options{})
	if n := strings.Count(full, "\n"); n < int(p.n) {
		t.Errorf("%d lines in full for %d events", n, p.n)
	}
	if n := strings.Count(brief, "\n"); n > 80 {
		t.Errorf("%d lines", n)
	}
	_, end, ok := strings.Cut(full, "\nViolated")
	if !ok || !strings.HasSuffix(brief, end) {
		t.Errorf("in full it ends with:\n%s\nin brief with:\n%s", end, brief)
	}
	if strings.Contains(brief, "\x1b") {
		t.Error("colours that were not asked for")
	}
	coloured := tell(t, p, story.Options{Colour: true})
	plain := strings.NewReplacer("\x1b[1m", "", "\x1b[2m", "", "\x1b[31m", "", "\x1b[1;31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(coloured)
	if coloured == plain || plain != brief {
		t.Errorf("without its colours it is:\n%s", plain)
	}
}

// TestLapse: the end of a lease that no step sees is told, at its time.
func TestLapse(t *testing.T) {
	p := newPlay(t, "n1", "n2")
	p.step("n1", 0, protocol.Input{Kind: protocol.Boot}, protocol.View{Role: protocol.Follower}, protocol.Effects{})
	p.step("n1", 0, protocol.Input{Kind: protocol.Fire},
		protocol.View{Role: protocol.Leader, Term: 1, Token: 1, Elected: true, Active: true, LeaseEnd: p.clock(101 * time.Millisecond)}, protocol.Effects{})
	p.at += time.Second
	p.add(trace.Event{Kind: trace.Note, Says: "much later"})
	got := tell(t, p, story.Options{})
	want := "    0.1020 s  │            n1: its lease has ended (token 1)"
	if !strings.Contains(strings.ReplaceAll(got, "E1", "│ "), want) {
		t.Errorf("%q is missing in:\n%s", want, got)
	}
	if !strings.Contains(got, "has no end; nothing was violated so far") {
		t.Errorf("the end is:\n%s", got)
	}
}

// TestTwoElected: for a protocol without leases a story says for how long two were elected, whether
// or not that counts as a violation.
func TestTwoElected(t *testing.T) {
	for _, violated := range []bool{false, true} {
		p := newPlay(t, "n1", "n2")
		for _, id := range []protocol.NodeID{"n1", "n2"} {
			p.step(id, 0, protocol.Input{Kind: protocol.Boot}, protocol.View{Role: protocol.Follower}, protocol.Effects{})
		}
		p.step("n1", 0, protocol.Input{Kind: protocol.Fire}, protocol.View{Role: protocol.Leader, Term: 1, Token: 1, Elected: true}, protocol.Effects{})
		p.at += time.Second
		p.step("n2", 0, protocol.Input{Kind: protocol.Fire}, protocol.View{Role: protocol.Leader, Term: 2, Token: 2, Elected: true}, protocol.Effects{})
		from := p.at
		if violated {
			p.add(trace.Event{Kind: trace.Violation, Node: "n2", Invariant: "exclusive"})
		}
		p.at += 2 * time.Second
		p.add(trace.Event{Kind: trace.Freeze, Node: "n1", Life: 1})
		both := p.at - from
		p.at += time.Second
		p.add(trace.Event{Kind: trace.End, Hash: "00", Says: "time is over"})
		got := tell(t, p, story.Options{})
		want := fmt.Sprintf("Terms that were elected: 2; none proved a lease. Two were elected at one time for %.4f s.\n", both.Seconds())
		if !strings.HasSuffix(got, want) {
			t.Errorf("violated %t: %q is not at the end of:\n%s", violated, want, got)
		}
		if strings.Contains(got, "not active") {
			t.Errorf("no node is active without leases:\n%s", got)
		}
	}
}

// TestDrift: the reading of a fast clock is shown in true time.
func TestDrift(t *testing.T) {
	p := newPlay(t, "n1")
	fast := func(at time.Duration) protocol.Instant { return protocol.Instant(at + at/10) }
	for i := range 11 { // to 1 s
		p.at = time.Duration(i) * 100 * time.Millisecond
		in := &protocol.Input{Kind: protocol.Fire, Now: protocol.Reading{Boot: fast(p.at), Mono: fast(p.at)}}
		v := &protocol.View{Role: protocol.Follower}
		if i == 0 {
			in.Kind = protocol.Boot
		}
		if i == 10 {
			*v = protocol.View{Role: protocol.Leader, Term: 1, Token: 1, Elected: true, Active: true, LeaseEnd: fast(3 * time.Second)}
		}
		p.add(trace.Event{Node: "n1", Kind: trace.Step, Input: in, View: v})
	}
	if got := tell(t, p, story.Options{}); !strings.Contains(got, "ACTIVE, proven until 3.0000 s") {
		t.Errorf("a clock that is fast by a tenth shows 3.3 s at 3 s:\n%s", got)
	}
}

// TestWords: every kind of input, effect and event has a text.
func TestWords(t *testing.T) {
	p := newPlay(t, "n1", "n2")
	follower := protocol.View{Role: protocol.Follower, Term: 1}
	p.step("n1", 0, protocol.Input{Kind: protocol.Boot, Durable: []byte("x")}, follower, protocol.Effects{})
	p.step("n1", 0, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: protocol.Campaign}}, follower,
		protocol.Effects{Asks: []protocol.Ask{{Number: 4, Op: protocol.Write}}})
	p.step("n1", 2, protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: 4, Status: protocol.StatusConflict}}, follower, protocol.Effects{})
	p.step("n1", 0, protocol.Input{Kind: protocol.Replied, Answer: protocol.Answer{Number: 4, Status: protocol.StatusDone}}, follower, protocol.Effects{})
	p.step("n1", 0, protocol.Input{Kind: protocol.Saved, Number: 3}, follower, protocol.Effects{})
	p.step("n1", 0, protocol.Input{Kind: protocol.Saved, Number: 4, Failed: true}, follower, protocol.Effects{})
	for _, verb := range []protocol.Verb{protocol.Joined, protocol.Sicken, protocol.Recover} {
		p.step("n1", 0, protocol.Input{Kind: protocol.Do, Command: protocol.Command{Verb: verb, Token: 9}}, follower, protocol.Effects{})
	}
	p.step("n1", 0, protocol.Input{Kind: protocol.Fire}, protocol.View{Role: protocol.Halted, Fault: "it cannot read its state"},
		protocol.Effects{Orders: []protocol.Order{{Kind: protocol.Stop, Token: 9, Reason: "expired"}}})
	p.add(trace.Event{Kind: trace.Down, Node: "n1", Life: 1, Says: "killed"})
	p.add(trace.Event{Kind: trace.State, Node: "n2", Life: 1, State: []byte("x"), View: &protocol.View{Role: protocol.Follower, Term: 3}, Says: "a gap before"})
	p.add(trace.Event{Kind: trace.Heal, Says: "isolate n1"})
	p.add(trace.Event{Kind: trace.Note, Says: "an aside"})
	p.add(trace.Event{Kind: trace.End, Hash: "00", Says: "time is over"})
	got := tell(t, p, story.Options{Full: true})
	for _, want := range []string{
		"n1 boots from its disk", "n1 is told to campaign; asks: write", "store → n1 write: conflict", "store → n1 ask 4: done",
		"n1 has saved 3", "n1 could not save 4", "its work has returned (token 9)", "n1 is unhealthy", "n1 is healthy again",
		"halted; halts: it cannot read its state; stops its work (token 9): expired", "n1 is down: killed", "the recording of n2 begins, as follower in term 3: a gap before", "healed: isolate n1", "an aside",
		"the end: time is over", "Nothing was violated.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

// TestDefect: what came before a defect is written, and the defect is returned.
func TestDefect(t *testing.T) {
	p := newPlay(t, "n1")
	p.step("n1", 0, protocol.Input{Kind: protocol.Boot}, protocol.View{Role: protocol.Follower}, protocol.Effects{})
	fmt.Fprintln(&p.buf, "{}")
	for _, full := range []bool{true, false} {
		d, err := trace.NewDecoder(bytes.NewReader(p.buf.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = story.Write(&out, d, story.Options{Full: full})
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") {
			t.Errorf("%v; want what is wrong with line 3", err)
		}
		for _, want := range []string{"n1 boots", "defective from here on"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in:\n%s", want, out.String())
			}
		}
	}
}
