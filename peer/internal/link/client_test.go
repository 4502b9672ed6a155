package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// office is a node that answers: echo (the body), count (numbers until the end of
// the request), fail, silent, hold (waits for the end).
func office(t *testing.T, w *testNet) (n1 *resident, begun, ended chan string) {
	t.Helper()
	begun, ended = make(chan string, 1000), make(chan string, 1000)
	n1 = w.start("n1", w.listen("n1"), func(cfg *Config) {
		cfg.Serve = func(ctx context.Context, from Caller, q *wire.Request, reply func(*wire.Response) error) {
			switch q.Verb {
			case "who":
				body, _ := json.Marshal(fmt.Sprintf("%s %v %d", from.ID, from.Role, q.Token))
				_ = reply(&wire.Response{Body: body})
			case "echo":
				_ = reply(&wire.Response{Body: q.Body})
			case "count":
				for n := 0; ; n++ {
					if err := reply(&wire.Response{More: true, Body: fmt.Append(nil, n)}); err != nil {
						ended <- "count"
						return
					}
				}
			case "fail":
				_ = reply(&wire.Response{Code: "unwell", Error: "it is not well"})
			case "hold":
				begun <- "hold"
				<-ctx.Done()
				ended <- "hold"
			}
		}
	})
	return n1, begun, ended
}

func (w *testNet) client(t *testing.T, id protocol.NodeID) *Client {
	t.Helper()
	c, err := Dial(within(t), ClientConfig{Addr: w.addrs["n1"], Hello: w.hello(""), About: "e", TLS: w.identity(id), Expect: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ended waits until a request has ended, or begun.
func ended(t *testing.T, ch <-chan string, want string) {
	t.Helper()
	select {
	case got := <-ch:
		if got != want {
			t.Fatalf("%s; want %s", got, want)
		}
	case <-time.After(deadline):
		t.Fatalf("%s: it did not come", want)
	}
}

func TestClient(t *testing.T) {
	w := secure(t, "n1", "n2")
	n1, began, done := office(t, w)
	ctx := within(t)
	for id, want := range map[protocol.NodeID]string{"": ` operate 7`, "n2": `n2  7`} {
		var got string
		if err := w.client(t, id).Call(ctx, "who", 7, nil, func(b json.RawMessage) error { return json.Unmarshal(b, &got) }); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	c := w.client(t, "")
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			var got int
			if err := c.Call(ctx, "echo", 0, n, func(b json.RawMessage) error { return json.Unmarshal(b, &got) }); err != nil || got != n {
				t.Errorf("%d, %v; want %d", got, err, n)
			}
		})
	}
	all.Wait()

	err := c.Call(ctx, "fail", 0, nil, nil)
	if e, ok := errors.AsType[*CallError](err); !ok || e.Code != "unwell" || e.Error() != "it is not well" {
		t.Errorf("%v; want the node's error", err)
	}
	if err := c.Call(ctx, "silent", 0, nil, nil); err == nil || !strings.Contains(err.Error(), "not answered") {
		t.Errorf("%v; want that it was not answered", err)
	}

	// A stream, which its reader ends; the connection stays.
	enough, next := errors.New("enough"), 0
	err = c.Call(ctx, "count", 0, nil, func(b json.RawMessage) error {
		if string(b) != fmt.Sprint(next) {
			t.Fatalf("%s; want %d", b, next)
		}
		if next++; next == 100 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("%v; want the reader's own error", err)
	}
	ended(t, done, "count")

	// A request that is taken back.
	short, cancel := context.WithCancel(ctx)
	held := make(chan error, 1)
	go func() { held <- c.Call(short, "hold", 0, nil, nil) }()
	ended(t, began, "hold")
	cancel()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want context.Canceled", err)
	}
	ended(t, done, "hold")

	// The end of the connection ends what is in progress, on both sides.
	go func() { held <- c.Call(ctx, "hold", 0, nil, nil) }()
	ended(t, began, "hold")
	n1.Close()
	ended(t, done, "hold")
	if err := <-held; err == nil || !strings.Contains(err.Error(), "the connection ended") {
		t.Errorf("%v; want that the connection ended", err)
	}
	<-c.Done()
	if err := c.Call(ctx, "echo", 0, 1, nil); err == nil {
		t.Error("no error on a connection that has ended")
	}
	for len(n1.events) > 0 {
		if e := <-n1.events; e.kind == "closed" || e.kind == "welcomed" {
			t.Errorf("%v: a client counts as a node", e)
		}
	}
}

func TestClientsAreBounded(t *testing.T) {
	w := &testNet{t: t}
	_, begun, done := office(t, w)
	ctx := within(t)
	c := w.client(t, "")
	for range maxCalls {
		go func() { _ = c.Call(ctx, "hold", 0, nil, nil) }()
		ended(t, begun, "hold")
	}
	if e, ok := errors.AsType[*CallError](c.Call(ctx, "echo", 0, 1, nil)); !ok || e.Code != codeBusy || !strings.Contains(e.Says, "16 requests") {
		t.Errorf("%v; want busy", e)
	}
	c.Close()
	for range maxCalls {
		ended(t, done, "hold")
	}
	var err error
	for range maxClients + 1 {
		var c *Client
		if c, err = Dial(ctx, ClientConfig{Addr: w.addrs["n1"], Hello: w.hello(""), About: "e"}); err == nil {
			defer c.Close()
		}
	}
	if r, ok := errors.AsType[*wire.Refusal](err); !ok || r.Code != wire.CodeBusy {
		t.Errorf("%v; want a refusal", err)
	}
}

func TestClientIsRefused(t *testing.T) {
	w := secure(t, "n1")
	office(t, w)
	foreign := secure(t, "n1")
	for name, c := range map[string]struct {
		change func(*ClientConfig)
		says   string
	}{
		"another CA":      {func(c *ClientConfig) { c.TLS = foreign.identity("") }, "signed by another CA"},
		"no certificate":  {func(c *ClientConfig) { c.TLS = nil }, "this node wants TLS 1.3"},
		"another node":    {func(c *ClientConfig) { c.Expect = "n2" }, "is for n1 of cluster test; want n2"},
		"another cluster": {func(c *ClientConfig) { c.Hello.Cluster = "prod" }, `the client belongs to cluster "prod"; n1 to "test"`},
		"nobody there":    {func(c *ClientConfig) { c.Addr = "127.0.0.1:1" }, "refused"},
	} {
		cfg := ClientConfig{Addr: w.addrs["n1"], Hello: w.hello(""), About: "e", TLS: w.identity(""), Expect: "n1"}
		c.change(&cfg)
		if _, err := Dial(within(t), cfg); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), cfg.Addr) {
			t.Errorf("%s: %v; want %q and the address", name, err, c.says)
		}
	}

	// Nobody answers: ctx ends it.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	for _, identity := range []*certs.Identity{nil, w.identity("")} {
		if _, err := Dial(ctx, ClientConfig{Addr: mute.Addr().String(), Hello: w.hello(""), About: "e", TLS: identity}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v; want context.DeadlineExceeded", err)
		}
	}
}

func release() *protocol.Message {
	return &protocol.Message{Type: quorum.WitnessRelease, Dir: protocol.DirID{1}, Echo: 3}
}

func TestWitness(t *testing.T) {
	for _, secured := range []bool{false, true} {
		w := &testNet{t: t}
		if secured {
			w = secure(t, "n1", "n2", "n3")
		}
		var voters []*resident
		for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
			w.listen(id).Close() // only for the address
		}
		for _, id := range []protocol.NodeID{"n1", "n2"} {
			voters = append(voters, w.start(id, w.listen(id), nil))
		}
		voters[0].talk(voters[1], 1)
		hello := w.hello("n3")
		hello.Caller = wire.WitnessOf
		x := StartWitness(WitnessConfig{Hello: hello, Enter: part(), Peers: w.addrs, TLS: w.identity("n3")})
		defer x.Close()
		harness.Eventually(t, "warm", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return len(x.open) == 2
		})
		begun := time.Now()
		if err := x.Speak(within(t), release()); err != nil {
			t.Fatal(err)
		}
		t.Logf("two voters have taken it after %v", time.Since(begun))
		for _, v := range voters {
			e := v.kind("received", "n3", "closed")
			if e.letter.Message.Type != quorum.WitnessRelease || e.letter.Message.Echo != 3 {
				t.Errorf("%v", e)
			}
			if v.connected("n3") {
				t.Error("a witness counts as a node")
			}
		}
		x.Close()
		voters[0].talk(voters[1], 2) // and its end was not told
	}
}

// TestWitnessDials: a witness also tells a voter that comes late, and names one that never comes.
func TestWitnessDials(t *testing.T) {
	w := &testNet{t: t}
	for _, id := range []protocol.NodeID{"n1", "n2", "n3"} {
		w.listen(id).Close()
	}
	n1 := w.start("n1", w.listen("n1"), nil)
	hello := w.hello("n3")
	x := StartWitness(WitnessConfig{Hello: hello, Enter: part(), Peers: w.addrs})
	defer x.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := x.Speak(short, release()); err == nil || !strings.Contains(err.Error(), "want 2") || !strings.Contains(err.Error(), "n2: ") {
		t.Fatalf("%v; want how many voters are missing, and why n2 is", err)
	}
	n1.kind("received", "n3")
	n2 := w.start("n2", w.listen("n2"), nil)
	if err := x.Speak(within(t), release()); err != nil {
		t.Fatal(err)
	}
	n2.kind("received", "n3")
}

// TestWitnessMaySayOneThing only, and nothing through a cut cable.
func TestWitnessMaySayOneThing(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	x := StartWitness(WitnessConfig{Hello: w.hello("n3"), Enter: part(), Peers: w.addrs})
	defer x.Close()
	m := release()
	m.Type = quorum.Heartbeat
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := x.Speak(short, m); err == nil || !strings.Contains(err.Error(), "a witness says witness-release and nothing else") {
		t.Errorf("%v; want the node's refusal", err)
	}
	for len(n1.events) > 0 {
		if e := <-n1.events; e.kind == "received" {
			t.Error(e)
		}
	}

	c, err := cable.New(w.addrs["n1"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	y := StartWitness(WitnessConfig{Hello: w.hello("n3"), Enter: part(), Peers: map[protocol.NodeID]string{"n1": c.Addr()}})
	defer y.Close()
	harness.Eventually(t, "warm", func() bool { y.mu.Lock(); defer y.mu.Unlock(); return len(y.open) == 1 })
	c.Cut()
	short, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := y.Speak(short, release()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want that nobody has taken it", err)
	}
	c.Heal()
	if err := y.Speak(within(t), release()); err != nil {
		t.Error(err)
	}
	n1.kind("received", "n3")
}

func TestWitnessesAreBounded(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	for range maxWitnesses {
		x := StartWitness(WitnessConfig{Hello: w.hello("n3"), Enter: part(), Peers: w.addrs})
		defer x.Close()
		harness.Eventually(t, "warm", func() bool { x.mu.Lock(); defer x.mu.Unlock(); return len(x.open) == 1 })
	}
	x := StartWitness(WitnessConfig{Hello: w.hello("n3"), Enter: part(), Peers: w.addrs})
	defer x.Close()
	n1.logged("8 witnesses of n3 are connected already")
}
