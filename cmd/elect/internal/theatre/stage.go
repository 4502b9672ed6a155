package theatre

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/cmd/elect/internal/fleet"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/peer/cable"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/protocol"
)

// election is the name of the demo's.
const election = "demo"

// stage is the real processes, and what is done to them. Its methods may be
// called by any number of goroutines, but close, which comes last.
type stage struct {
	program, job string
	profile      string
	dir          string // with the certificates, the data and the log
	fleet        *fleet.Fleet

	addrs   [size]string                // where the nodes listen
	cables  [size][size]*cable.Cable    // from whom to whom; nil to oneself
	clients [size]*peer.Client          // each asks one node, past the cables
	urls    [size]string                // the election as each node is given it
	nodes   chan [size]*fleet.Candidate // holds the present ones, or is empty while they change
	ended   func(i, code int)
	ends    sync.WaitGroup // who waits to call it
}

// open prepares everything but the nodes themselves.
func (s *stage) open() error {
	for i := range ids {
		addr, err := freeAddr()
		if err != nil {
			return err
		}
		s.addrs[i] = addr
	}
	o := certs.Options{Cluster: "elect-demo", Valid: 24 * time.Hour}
	for _, id := range ids {
		o.Nodes = append(o.Nodes, certs.Node{ID: protocol.NodeID(id), Hosts: []string{"127.0.0.1"}})
	}
	if err := certs.Make(s.certs(), o); err != nil {
		return err
	}
	for i := range ids {
		for k := range ids {
			if i == k {
				continue
			}
			c, err := cable.New(s.addrs[k])
			if err != nil {
				return err
			}
			s.cables[i][k] = c
		}
	}
	for i := range ids {
		var list []string
		for k, id := range ids {
			addr := s.addrs[k]
			if i != k {
				addr = s.cables[i][k].Addr()
			}
			list = append(list, id+"@"+addr)
		}
		s.urls[i] = s.url(list, s.profile)
		client, err := peer.NewClient(peer.Config{
			Name: election, Voters: []peer.Peer{{ID: protocol.NodeID(ids[i]), Addr: s.addrs[i]}}, Certs: s.certs(), Profile: s.profile,
		})
		if err != nil {
			return err
		}
		s.clients[i] = client
	}
	s.nodes = make(chan [size]*fleet.Candidate, 1)
	s.nodes <- [size]*fleet.Candidate{}
	return os.WriteFile(filepath.Join(s.dir, "url"), []byte(s.direct()+"\n"), 0o600)
}

// url is the election's with these nodes.
func (s *stage) url(nodes []string, profile string) string {
	q := url.Values{"certs": {s.certs()}, "data": {filepath.Join(s.dir, "data")}, "profile": {profile}}
	return "peer://" + strings.Join(nodes, ",") + "?" + q.Encode()
}

// direct is the election's URL without cables between the nodes.
func (s *stage) direct() string {
	var list []string
	for i, id := range ids {
		list = append(list, id+"@"+s.addrs[i])
	}
	return s.url(list, s.profile)
}

func (s *stage) certs() string { return filepath.Join(s.dir, "certs") }

// log is the path of the log that the jobs write.
func (s *stage) log() string { return filepath.Join(s.dir, "job.log") }

// freeAddr finds a port on loopback for a node to listen on, again and again:
// below the ports that systems give to outgoing connections, so that none gets
// it while the node is dead.
func freeAddr() (string, error) {
	var last error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+random(20_000)))
		if err != nil {
			last = err
			continue
		}
		addr := l.Addr().String()
		return addr, l.Close()
	}
	return "", fmt.Errorf("no free port was found on 127.0.0.1: %w", last)
}

// set changes a node's process.
func (s *stage) set(i int, c *fleet.Candidate) {
	nodes := <-s.nodes
	nodes[i] = c
	s.nodes <- nodes
}

func (s *stage) node(i int) *fleet.Candidate {
	nodes := <-s.nodes
	s.nodes <- nodes
	return nodes[i]
}

// start starts a node. Its end, whatever the reason, is reported once.
func (s *stage) start(i int) error {
	cmd := exec.Command(s.program, "run", "--election", s.urls[i], "--name", election, "--id", ids[i],
		"--restart", "always", "--grace", "1s", "--", s.program, s.job, s.log())
	c, err := s.fleet.Spawn(ids[i], cmd)
	if err != nil {
		return err
	}
	s.set(i, c)
	s.ends.Go(func() { s.ended(i, c.Code()) })
	return nil
}

// signal sends one to a node's elect run.
func (s *stage) signal(i int, sig syscall.Signal) error {
	c := s.node(i)
	if c == nil {
		return fmt.Errorf("%s was not started", ids[i])
	}
	return c.Signal(sig)
}

// sever cuts or heals all cables of a node.
func (s *stage) sever(i int, cut bool) {
	for k := range ids {
		for _, c := range []*cable.Cable{s.cables[i][k], s.cables[k][i]} {
			switch {
			case c == nil:
			case cut:
				c.Cut()
			default:
				c.Heal()
			}
		}
	}
}

// resign asks a node to give leadership up.
func (s *stage) resign(ctx context.Context, i int, token fence.Token) error {
	return s.clients[i].Recall(ctx, token)
}

// read asks a node for its state.
func (s *stage) read(ctx context.Context, i int) (reading, error) {
	all := s.clients[i].Statuses(ctx)
	if len(all) != 1 {
		return reading{}, fmt.Errorf("%d answers of %s", len(all), ids[i])
	}
	if all[0].Err != nil {
		return reading{}, all[0].Err
	}
	st := all[0].Status
	now := reading{role: st.Role, founded: st.Founded, token: st.Token, active: st.Active, lease: st.LeaseLeft}
	if st.Leader != nil && !st.Stale {
		now.follows = st.Leader.ID
	}
	for _, p := range st.Peers {
		if p.Connected {
			now.hears = append(now.hears, string(p.ID))
		}
	}
	return now, nil
}

// late lets a write arrive that an earlier leader's job has sent long ago, and
// returns what the log says to that.
func (s *stage) late(l life) error {
	g, err := openGuard(s.log())
	if err != nil {
		return err
	}
	return errors.Join(g.append(line{Token: l.token, ID: l.id, PID: os.Getpid()}), g.close())
}

// end ends the nodes: those first that do not lead, so that none of them takes
// over.
func (s *stage) end(leader int) {
	if s.nodes == nil {
		return
	}
	for i := range ids {
		c := s.node(i)
		if c == nil {
			continue
		}
		_ = c.Signal(resume) // it may have ended, here and below
		if i != leader {
			_ = c.Signal(syscall.SIGTERM)
		}
	}
	late := time.After(time.Second)
	for i := range ids {
		c := s.node(i)
		if c == nil || i == leader {
			continue
		}
		select {
		case <-c.Done():
		case <-late:
			late = nil
		}
		if late == nil {
			break
		}
	}
	s.fleet.Close()
	s.ends.Wait()
}

// close frees what is left when the nodes are dead.
func (s *stage) close() {
	for i := range ids {
		for _, c := range s.cables[i] {
			if c != nil {
				_ = c.Close() // nothing is lost by it
			}
		}
		if s.clients[i] != nil {
			_ = s.clients[i].Close()
		}
	}
}
