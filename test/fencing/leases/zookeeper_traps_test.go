//go:build linux && cgo

package leases_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/cable"
	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/test/fencing/server"
)

// follower starts three servers, of which one follows over a cable: it may hear nothing of the ensemble's leader.
func follower(t *testing.T) (servers []*server.ZooKeeper, f *server.ZooKeeper, hears func(on bool)) {
	t.Helper()
	servers = server.StartZooKeepers(t, 3, "syncLimit=1000")
	f = servers[0]
	f.Kill(t)
	var quorum []*cable.Cable
	file := filepath.Join(filepath.Dir(f.Data()), "zoo.cfg")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		id, place, _ := strings.Cut(line, "=")
		if id != "server.2" && id != "server.3" {
			continue
		}
		at := place[:strings.LastIndexByte(place, ':')] // the other port is for votes
		c := cableTo(t, at)
		quorum, lines[i] = append(quorum, c), strings.Replace(line, at, c.Addr(), 1)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	f.Start(t)
	if mode := f.Mode(); mode != "follower" || len(quorum) != 2 {
		t.Fatalf("the server is a %s over %d cables; want a follower over 2", mode, len(quorum))
	}
	return servers, f, func(on bool) {
		for _, c := range quorum {
			c.Set(cable.Way{}, cable.Way{Cut: !on})
		}
	}
}

// TestZooKeeperLaggingFollower: a follower that hears nothing of the ensemble's leader passes requests on, and shows an
// older state. So an observer gets no list before that is over, and a candidate that does not know whether it has an
// entry no answer to its write. After that both see the entry.
func TestZooKeeperLaggingFollower(t *testing.T) {
	long.Full(t, "it starts an ensemble")
	t.Parallel()
	servers, f, hears := follower(t)
	z := newZnodes(t, servers[1])
	z.times = "lease=40s&max_hold=3s" // for requests of 750 ms, and sessions of which the leader does not hear
	e := machineOf(logged(t, z.url(f.Addr), "a", nil).Elector)
	ask := func(a protocol.Ask) protocol.Answer { return e.ask(a)() }
	session := ask(protocol.Ask{Op: protocol.OpenSession, TTL: 40 * time.Second}).Session
	own := protocol.Ask{Op: protocol.List, Session: session}
	if a := ask(own); session == 0 || a.Status != protocol.StatusDone || len(a.Entries) > 0 {
		t.Fatalf("session %x, and %+v; want an empty queue", session, a)
	}
	client := f.Client(t)
	hears(false)
	enter := protocol.Ask{Op: protocol.Enter, Session: session, Nonce: protocol.Nonce{1, 2}, Entry: protocol.Entry{Holder: "a", Session: session}}
	if a := ask(enter); a.Status != protocol.StatusUnknown {
		t.Fatalf("an entry is answered by %+v; want no answer", a)
	}
	z.enters(t, 1)
	if shown, _, err := client.Children(z.prefix + "/e"); err != nil || len(shown) > 0 {
		t.Fatalf("the follower shows %q, %v; want that it hides the entry", shown, err)
	}
	sync, observe := protocol.Ask{Op: protocol.Sync, Session: session}, protocol.Ask{Op: protocol.List}
	for range 2 {
		for _, a := range []protocol.Ask{sync, observe} {
			if is := ask(a); is.Status == protocol.StatusDone {
				t.Errorf("%v is answered by %+v while the follower hears nothing; want no answer", a.Op, is)
			}
		}
	}
	hears(true)
	for _, c := range []struct{ barrier, list protocol.Ask }{{sync, own}, {observe, observe}} {
		harness.Eventually(t, "the follower hears again", func() bool { return ask(c.barrier).Status == protocol.StatusDone })
		if a := ask(c.list); len(a.Entries) != 1 || a.Entries[0].Nonce != enter.Nonce || a.Entries[0].Session != session {
			t.Errorf("after %v: %+v; want the entry", c.barrier.Op, a)
		}
	}
}

// TestZooKeeperDeafFollower: a leader at a server that hears nothing of the ensemble goes on at another one in time. That
// server accepts connections, and does not answer in a session that it has lost: it is not tried again first.
func TestZooKeeperDeafFollower(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy")
	servers, f, hears := follower(t)
	other := cableTo(t, servers[1].Addr)
	other.Cut()
	m := logged(t, newZnodes(t, servers[1]).url(f.Addr+","+other.Addr()), "a", nil).campaign(t.Context())
	other.Heal()
	hears(false)
	if err := m.(driver.Confirmer).Confirm(t.Context()); err != nil {
		t.Errorf("%v; want it to lead on", err)
	}
	released(t, m)
}

// rawSession opens a connection to a server of ZooKeeper, in a session that there is or, if that is 0, in another one.
func rawSession(t *testing.T, addr string, session uint64, password []byte) (c net.Conn, of uint64, proves []byte) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	ask := make([]byte, 16) // the version of the protocol, the last transaction seen, and then how long a session lives
	binary.BigEndian.PutUint32(ask[12:], 30_000)
	ask = binary.BigEndian.AppendUint64(ask, session)
	answer := rawAnswer(t, c, rawBuffer(ask, password))
	if len(answer) < 36 {
		t.Fatalf("a connect request is answered by %x", answer)
	}
	return c, binary.BigEndian.Uint64(answer[8:]), answer[20:36]
}

func rawBuffer(to, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(content))), content...)
}

// rawAnswer sends a request, and returns the first answer; nil: the server has ended the connection.
func rawAnswer(t *testing.T, c net.Conn, request []byte) []byte {
	t.Helper()
	if _, err := c.Write(rawBuffer(nil, request)); err != nil {
		t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, answer); err != nil {
		return nil
	}
	return answer
}

// TestZooKeeperSessionMoved: a request that comes over a connection which its session has left for another server is
// refused. So after the write by which a candidate has come to another server, no earlier request makes an entry.
func TestZooKeeperSessionMoved(t *testing.T) {
	long.Full(t, "it starts an ensemble")
	t.Parallel()
	servers := server.StartZooKeepers(t, 3)
	client := servers[2].Client(t)
	for _, moved := range []bool{false, true} {
		for from := range servers {
			to := (from + 1) % len(servers)
			old, session, password := rawSession(t, servers[from].Addr, 0, make([]byte, 16))
			if moved {
				c, same, _ := rawSession(t, servers[to].Addr, session, password)
				check := binary.BigEndian.AppendUint32(nil, 1)  // xid
				check = binary.BigEndian.AppendUint32(check, 3) // exists
				if answer := rawAnswer(t, c, append(rawBuffer(check, []byte("/")), 0)); same != session || len(answer) < 16 {
					t.Fatalf("session %x has become %x, and it is answered by %x", session, same, answer)
				}
			}
			path := fmt.Sprintf("/late-%v-%d", moved, from)
			create := binary.BigEndian.AppendUint32(nil, 1)
			create = binary.BigEndian.AppendUint32(create, 1)
			create = rawBuffer(rawBuffer(create, []byte(path)), nil)
			create = binary.BigEndian.AppendUint32(create, 1) // one line of the ACL
			create = binary.BigEndian.AppendUint32(create, uint32(zk.PermAll))
			create = rawBuffer(rawBuffer(create, []byte("world")), []byte("anyone"))
			create = binary.BigEndian.AppendUint32(create, zk.FlagEphemeral)
			answer := rawAnswer(t, old, create)
			if _, err := client.Sync("/"); err != nil {
				t.Fatal(err)
			}
			there, _, err := client.Exists(path)
			if err != nil || there == moved {
				t.Errorf("server %d, moved %t: the znode is there: %t, %v (answer %x); want it only if the session has not moved", from+1, moved, there, err, answer)
			}
		}
	}
}
