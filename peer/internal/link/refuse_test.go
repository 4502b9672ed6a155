package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// TestRefusals: a caller that does not belong is refused with the reason, the node that refuses logs it, and its other
// peers are not disturbed.
func TestRefusals(t *testing.T) {
	foreign := secure(t, "n1", "n2", "n3", "n4")
	for name, c := range map[string]struct {
		change func(*testNet, *Config)
		code   wire.Code // as the refused side hears it; "": it hears none
		at     []string  // in the log of the side that refuses
		there  []string  // in the other one's
	}{
		"another cluster": {
			change: func(_ *testNet, cfg *Config) { cfg.Hello.Cluster = "prod" }, code: wire.CodeCluster,
			at: []string{"n3 belongs to cluster", "prod", "n1 to", "test"}, there: []string{"n3 belongs to cluster"},
		},
		"another election": {
			change: func(_ *testNet, cfg *Config) { cfg.Enter.Election = "other" }, code: wire.CodeElection,
			at: []string{"n1 takes no part in the election", "other"}, there: []string{"n1 takes no part in the election"},
		},
		"another CA": {
			change: func(_ *testNet, cfg *Config) { cfg.TLS = foreign.identity("n3") },
			// n3 notices first, and TLS has an alert for it.
			at: []string{"does not accept this node's certificate", "bad certificate"}, there: []string{"signed by another CA", "want the CA of"},
		},
		"another node's certificate": {
			change: func(w *testNet, cfg *Config) { cfg.TLS = w.identity("n4") }, code: wire.CodeIdentity,
			at: []string{"it says that it is n3, with the certificate of n4"}, there: []string{"with the certificate of n4"},
		},
		"an operator's certificate": {
			change: func(w *testNet, cfg *Config) { cfg.TLS = w.identity("") }, code: wire.CodeIdentity,
			at: []string{"operator's certificate", "want the certificate of n3"}, there: []string{"want the certificate of n3"},
		},
		"no certificate": {
			change: func(_ *testNet, cfg *Config) { cfg.TLS = nil }, code: wire.CodeCertificate,
			at: []string{"it calls without TLS", "certificate of cluster test"}, there: []string{"this node wants TLS 1.3"},
		},
		"the id of the one that is called": {
			change: func(w *testNet, cfg *Config) { cfg.Hello.ID, cfg.TLS = "n1", w.identity("n1") }, code: wire.CodeIdentity,
			at: []string{"both sides are n1"}, there: []string{"both sides are n1"},
		},
		"another node at the address": {
			change: func(w *testNet, cfg *Config) { cfg.Peers = Peers{"n2": {w.addrs["n1"]}} },
			at:     []string{"does not accept this node's certificate"}, there: []string{"is for n1 of cluster test", "want n2 of cluster test"},
		},
		"a node that Admit refuses": {
			change: func(_ *testNet, cfg *Config) { cfg.Enter.Incarnation = 99 }, code: wire.CodeUnknown,
			at: []string{"n3 takes no part here"}, there: []string{"n3 takes no part here"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := secure(t, "n1", "n2", "n3", "n4")
			l1, l2 := w.listen("n1"), w.listen("n2")
			admit := func(cfg *Config) {
				old := cfg.Admit
				cfg.Admit = func(from protocol.NodeID, e *wire.Enter, caller wire.Caller) (*wire.Welcome, *wire.Refusal) {
					if e.Incarnation == 99 {
						return nil, &wire.Refusal{Code: wire.CodeUnknown, Says: "n3 takes no part here", Final: true}
					}
					return old(from, e, caller)
				}
			}
			n1, n2 := w.start("n1", l1, admit), w.start("n2", l2, admit)
			n1.talk(n2, 1)
			n3 := w.start("n3", nil, func(cfg *Config) {
				cfg.Peers = Peers{"n1": {w.addrs["n1"]}}
				c.change(w, cfg)
			})
			if c.code != "" {
				if e := n3.await(func(e event) bool { return e.kind == "refused" }); e.refusal.Code != c.code {
					t.Errorf("%v; want %s", e, c.code)
				}
			}
			n3.logged(append([]string{"cannot connect"}, c.there...)...)
			n1.logged(c.at...)
			n1.talk(n2, 2)
			n2.talk(n1, 3)
			if n1.connected("n3") || n3.connected("n1") || n3.connected("n2") {
				t.Error("connected all the same")
			}
		})
	}
}

// TestPlainNode: the other way round, TLS calls where there is none.
func TestPlainNode(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	w.dir = secure(t, "n3").dir
	n3 := w.start("n3", nil, nil)
	n3.logged("cannot connect", "does not answer with TLS")
	n1.logged("it calls with TLS; this node speaks plain text", "want that at both sides or at none")
}

// TestVersions: another version of the protocol is refused by both sides, whichever calls, with both versions in the
// text.
func TestVersions(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	n3 := w.start("n3", nil, func(cfg *Config) { cfg.Hello.Version, cfg.Hello.Oldest = wire.Version+2, wire.Version+1 })
	if e := n3.kind("refused", "n1"); e.refusal.Code != wire.CodeVersion || !strings.Contains(e.refusal.Says, fmt.Sprintf("n1 speaks %s, the other side %d to %d", span(wire.Oldest, wire.Version), wire.Version+1, wire.Version+2)) {
		t.Errorf("%v", e)
	}
	n1.logged("no version of the protocol in common")
	// One that has a version in common with this one is as good as any.
	n4 := w.start("n4", nil, func(cfg *Config) { cfg.Hello.Version = wire.Version + 1; delete(cfg.Peers, "n3") })
	n4.talk(n1, 1)
}

// TestNewerNodeAnswers: a newer node is called, and refused by the caller.
func TestNewerNodeAnswers(t *testing.T) {
	w := &testNet{t: t}
	l1 := w.listen("n1")
	n1 := w.start("n1", l1, func(cfg *Config) { cfg.Hello.Version, cfg.Hello.Oldest = wire.Version+1, wire.Version+1 })
	raw, err := net.Dial("tcp", w.addrs["n1"])
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	h := w.hello("n2")
	_, _, err = greet(newStream(raw), &h, "n1")
	if r, ok := errors.AsType[*wire.Refusal](err); !ok || r.Code != wire.CodeVersion {
		t.Errorf("%v; want a refusal for its version", err)
	}
	n1.logged("no version of the protocol in common")
}

func TestCallsItself(t *testing.T) {
	w := &testNet{t: t}
	l1 := w.listen("n1")
	n1 := w.start("n1", l1, func(cfg *Config) { cfg.Peers["n2"] = []string{w.addrs["n1"]} })
	n1.logged("cannot connect", "n1 called itself")
}

// TestAddressesMixedUp: without certificates too.
func TestAddressesMixedUp(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	n3 := w.start("n3", nil, func(cfg *Config) { cfg.Peers = Peers{"n2": {w.addrs["n1"]}} })
	n3.logged("cannot connect", "n1 answers where n2 was expected")
	harness.Eventually(t, "refused", func() bool { return n3.peer("n2").Err != nil && !n1.connected("n3") })
}

// TestDialledRefuses: the side that has called refuses by Admit, and the other
// side hears of it.
func TestDialledRefuses(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	w.start("n3", nil, func(cfg *Config) {
		cfg.Admit = func(protocol.NodeID, *wire.Enter, wire.Caller) (*wire.Welcome, *wire.Refusal) {
			return nil, &wire.Refusal{Code: wire.CodeDirectory, Says: "another directory than before", Final: true}
		}
	})
	if e := n1.kind("refused", "n3"); e.refusal.Code != wire.CodeDirectory {
		t.Errorf("%v", e)
	}
	if n1.connected("n3") {
		t.Error("connected all the same")
	}
}

// TestStrangers: what is not said by a peer ends with one line in the log.
func TestStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		secured bool
		bytes   string
		log     string
	}{
		"random bytes":          {false, "\x00\x00\x00\x04\xff\xff\xff\xff", "want a Hello"},
		"random bytes, TLS":     {true, "\x16\x03\x01\x00\x04\xff\xff\xff\xff", "tls:"},
		"HTTP":                  {false, "GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes; want at most 16384"},
		"a frame too large":     {false, "\x00\x00\x40\x01", "a frame of 16385 bytes; want at most 16384"},
		"another frame first":   {false, frame(&wire.Frame{Welcome: &wire.Welcome{}}), "another frame than Hello"},
		"half a frame":          {false, frame(&wire.Frame{Welcome: &wire.Welcome{Program: "x"}})[:6], "unexpected EOF"},
		"a letter before Hello": {false, frame(&wire.Frame{Letter: letter(1)}), "another frame than Hello"},
	} {
		t.Run(name, func(t *testing.T) {
			_, n1, n2 := pair(t, c.secured)
			n1.talk(n2, 1)
			raw, err := net.Dial("tcp", n1.Link.cfg.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			if _, err := io.WriteString(raw, c.bytes); err != nil {
				t.Fatal(err)
			}
			_ = raw.(*net.TCPConn).CloseWrite()
			n1.logged(c.log)
			_ = raw.SetReadDeadline(time.Now().Add(deadline))
			if _, err := io.Copy(io.Discard, raw); err != nil && !endedThere(err) {
				t.Errorf("%v; want the end of the connection", err)
			}
			n1.talk(n2, 2)
			n2.talk(n1, 3)
		})
	}
}

func frame(f *wire.Frame) string {
	b, err := wire.Append(nil, f)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestSlowHandshakes: a caller that connects and says nothing is dropped when its time is over or others come, and does
// not keep out a caller that speaks.
func TestSlowHandshakes(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), func(cfg *Config) { cfg.Idle = time.Hour })
	var silent []net.Conn
	for range maxGuests + 10 {
		c, err := net.Dial("tcp", w.addrs["n1"])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	ended := make(chan error, len(silent))
	for _, c := range silent {
		go func() { // until the test closes it, at the latest
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
	}
	late := time.After(deadline)
	for range 10 {
		select {
		case err := <-ended:
			if !endedThere(err) {
				t.Fatalf("%v; want the end of the connection", err)
			}
		case <-late:
			t.Fatal("fewer than 10 of 74 were dropped")
		}
	}
	n3 := w.start("n3", nil, nil)
	n3.talk(n1, 1)
	harness.Eventually(t, "64 guests left at most", func() bool {
		n1.mu.Lock()
		defer n1.mu.Unlock()
		return n1.accepted <= maxGuests+1
	})
}

func TestHandshakeIsBounded(t *testing.T) {
	for _, secured := range []bool{false, true} {
		w := &testNet{t: t}
		if secured {
			w = secure(t, "n1")
		}
		n1 := w.start("n1", w.listen("n1"), func(cfg *Config) { cfg.Idle = 50 * time.Millisecond })
		c, err := net.Dial("tcp", w.addrs["n1"])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(deadline))
		if _, err := c.Read(make([]byte, 1)); !endedThere(err) {
			t.Fatalf("%v; want the end of the connection", err)
		}
		n1.logged("i/o timeout")
	}
}

// TestTooMany: the limit on all callers together.
func TestTooMany(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	n1.mu.Lock()
	n1.accepted += maxAccepted
	n1.mu.Unlock()
	c, err := net.Dial("tcp", w.addrs["n1"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n1.logged("too many connections")
	n1.mu.Lock()
	n1.accepted -= maxAccepted
	n1.mu.Unlock()
	w.start("n3", nil, nil).talk(n1, 1)
}

// TestNonsenseFromAPeer: an admitted peer that speaks nonsense is dropped, with
// the reason, and is not told dead by either side.
func TestNonsenseFromAPeer(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	for _, bytes := range []string{"\x00\x04\x00\x01", frame(&wire.Frame{Request: &wire.Request{Call: 1, Verb: "status"}}), "\x00\x00\x00\x01\xff"} {
		raw, frames := join(t, w, n1, "n2")
		frames.SetMax(wire.MaxFrame)
		if _, err := io.WriteString(raw, bytes); err != nil {
			t.Fatal(err)
		}
		_ = raw.SetReadDeadline(time.Now().Add(deadline))
		if f, err := frames.Next(); err != nil || f.Refusal == nil || f.Refusal.Code != wire.CodeFrame {
			t.Errorf("%+v, %v; want a refusal", f, err)
		}
		raw.Close()
		harness.Eventually(t, "disconnected", func() bool { return !n1.connected("n2") })
	}
	for {
		select {
		case e := <-n1.events:
			if e.kind == "closed" {
				t.Fatal(e)
			}
			continue
		default:
		}
		break
	}
}

// TestLogIsBounded: the same line comes once a minute, others a few a second.
func TestLogIsBounded(t *testing.T) {
	w := &testNet{t: t}
	n1 := w.start("n1", w.listen("n1"), nil)
	var lim limiter
	for range 100 {
		lim.log(n1.Link.log, "same", "a line")
	}
	for range 100 {
		lim.log(n1.Link.log, "", "others")
	}
	lines := 0
	for {
		select {
		case e := <-n1.events:
			if e.kind == "log" {
				lines++
			}
			continue
		default:
		}
		break
	}
	if lines < 2 || lines > 2*linesPerSecond {
		t.Errorf("%d lines of 200", lines)
	}
}

// TestCertificateIsRenewed: a certificate is renewed without a restart, and one that has expired is refused by the
// other side.
func TestCertificateIsRenewed(t *testing.T) {
	w := secure(t, "n1", "n2")
	n1 := w.start("n1", w.listen("n1"), nil)
	other := t.TempDir()
	if err := certs.Make(other, certs.Options{Cluster: "test", Nodes: []certs.Node{{ID: "n2"}}}); err != nil {
		t.Fatal(err)
	}
	stale, err := certs.Load(filepath.Join(other, "ca.crt"), filepath.Join(other, "n2.crt"), filepath.Join(other, "n2.key"))
	if err != nil {
		t.Fatal(err)
	}
	n2 := w.start("n2", nil, func(cfg *Config) { cfg.TLS = stale })
	n2.logged("cannot connect", "another CA")
	n1.logged("does not accept this node's certificate")
}

// TestCallerGoes: a caller that closes in the middle of the handshake, as a verb does that has its answer from another
// node, is no trouble of this node.
func TestCallerGoes(t *testing.T) {
	for _, reset := range []bool{false, true} {
		w := secure(t, "n1")
		n1 := w.start("n1", w.listen("n1"), func(cfg *Config) { cfg.Logger = debugging(cfg.Logger) })
		ctx, giveUp := context.WithCancel(t.Context())
		_, err := Dial(ctx, ClientConfig{
			Addr: w.addrs["n1"], Hello: w.hello(""), About: "e", TLS: w.identity(""), Expect: "n1",
			Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := dialTCP(ctx, addr)
				if err != nil {
					return nil, err
				}
				if reset {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				return &leaving{c, giveUp}, nil
			},
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v; want that it gave up", err)
		}
		got := n1.await(func(e event) bool { return strings.Contains(e.text, "a connection was ") })
		if !strings.Contains(got.text, "level=DEBUG") {
			t.Errorf("it logs %s", got.text)
		}
	}
}

// leaving is a connection whose owner gives up once it has said something.
type leaving struct {
	net.Conn
	giveUp context.CancelFunc
}

func (c *leaving) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.giveUp()
	return n, err
}

func (c *leaving) Read([]byte) (int, error) { return 0, context.Canceled }

// debugging is a logger that leaves nothing out.
func debugging(log *slog.Logger) *slog.Logger {
	return slog.New(everything{log.Handler()})
}

type everything struct{ slog.Handler }

func (everything) Enabled(context.Context, slog.Level) bool { return true }

// TestWrongAddress: a node whose address is wrong at one other node calls that one, so that
// all goes well; it is said all the same, with the address and what is there.
func TestWrongAddress(t *testing.T) {
	for _, secured := range []bool{false, true} {
		for name, there := range map[string]string{"nobody": "connection refused", "another node": "n3"} {
			t.Run(fmt.Sprint(name, secured), func(t *testing.T) {
				t.Parallel()
				w := &testNet{t: t}
				if secured {
					w = secure(t, "n1", "n2", "n3")
				}
				l1, l2, l3 := w.listen("n1"), w.listen("n2"), w.listen("n3")
				wrong := w.addrs["n3"]
				if there != "n3" {
					_ = l3.Close()
					delete(w.addrs, "n3")
				} else {
					w.start("n3", l3, serving)
				}
				n1 := w.start("n1", l1, func(cfg *Config) { cfg.Peers["n2"] = []string{wrong} })
				n2 := w.start("n2", l2, serving)
				n1.logged("is not found at the address that this node has for it", "peer=n2", "addr="+wrong, there)
				n2.Close()
				for len(n2.events) > 0 {
					if e := <-n2.events; strings.Contains(e.text, "is not found at the address") {
						t.Errorf("n2 says so of an address that is right: %s", e.text)
					}
				}
			})
		}
	}
}

// serving has a node take clients.
func serving(cfg *Config) {
	cfg.Serve = func(context.Context, Caller, *wire.Request, func(*wire.Response) error) {}
}
