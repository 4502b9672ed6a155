package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/localpeers"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/peer"
)

// election is the name of the demo's election.
const election = "demo"

// processes are the real processes, and the actions on them. Its methods may be called by any number of goroutines,
// except close, which comes last.
type processes struct {
	program, job string
	profile      string
	dir          string // with the certificates, the data and the log
	cluster      *cluster.Cluster

	local   *localpeers.Peers             // certificates, ports and cables of the nodes
	clients [size]*peer.Client            // each asks one node, bypassing the cables
	nodes   chan [size]*cluster.Candidate // holds the present ones, or is empty while they change
	ended   func(i, code int)
	ends    sync.WaitGroup // goroutines that wait to call it
}

// validity is that of the certificates, for users who go on by hand.
const validity = 24 * time.Hour

// open prepares everything but the nodes themselves.
func (s *processes) open() (err error) {
	s.local, err = localpeers.New(localpeers.Config{Dir: s.dir, Profile: s.profile, Voters: size, Cables: true, Cluster: "elect-demo", Valid: validity})
	if err != nil {
		return err
	}
	voters, cfg, err := s.local.Config()
	if err != nil {
		return err
	}
	for i := range ids {
		if s.clients[i], err = peer.NewClient(voters[i:i+1], election, cfg); err != nil {
			return err
		}
	}
	s.nodes = make(chan [size]*cluster.Candidate, 1)
	s.nodes <- [size]*cluster.Candidate{}
	return os.WriteFile(filepath.Join(s.dir, "url"), []byte(s.local.Direct()+"\n"), 0o600)
}

// log is the path of the log that the jobs write.
func (s *processes) log() string { return filepath.Join(s.dir, "job.log") }

// set changes a node's process.
func (s *processes) set(i int, c *cluster.Candidate) {
	nodes := <-s.nodes
	nodes[i] = c
	s.nodes <- nodes
}

func (s *processes) node(i int) *cluster.Candidate {
	nodes := <-s.nodes
	s.nodes <- nodes
	return nodes[i]
}

// start starts a node. Its end, for any reason, is reported once, unless it was started again before.
func (s *processes) start(i int) error {
	cmd := exec.Command(s.program, "run", "--election", s.local.URL(ids[i]), "--name", election, "--id", ids[i],
		"--restart", "always", "--grace", "1s", "--", s.program, s.job, s.log())
	c, err := s.cluster.Spawn(ids[i], cmd)
	if err != nil {
		return err
	}
	s.set(i, c)
	s.ends.Go(func() {
		// A killed node has ended only when no process of it writes any more. By then it may have been started again.
		if code := c.Code(); s.node(i) == c {
			s.ended(i, code)
		}
	})
	return nil
}

// signal sends a signal to a node's elect run.
func (s *processes) signal(i int, sig syscall.Signal) error {
	c := s.node(i)
	if c == nil {
		return fmt.Errorf("%s was not started", ids[i])
	}
	return c.Signal(sig)
}

// resign asks a node to give leadership up.
func (s *processes) resign(ctx context.Context, i int, token fence.Token) error {
	return s.clients[i].Resign(ctx, token)
}

// transfer asks the leader, which is node i, to hand leadership over to node to.
func (s *processes) transfer(ctx context.Context, i, to int, token fence.Token) error {
	return s.clients[i].Transfer(ctx, token, ids[to])
}

// read asks a node for its state.
func (s *processes) read(ctx context.Context, i int) (reading, error) {
	all := s.clients[i].Statuses(ctx)
	if len(all) != 1 {
		return reading{}, fmt.Errorf("%d answers of %s", len(all), ids[i])
	}
	if all[0].Err != nil {
		return reading{}, all[0].Err
	}
	st := all[0].Status
	now := reading{role: st.Role, term: st.Term, founded: st.Founded, token: st.Token, active: st.Active, lease: st.LeaseLeft}
	if st.Leader != nil && !st.Stale {
		now.follows = st.Leader.ID
	}
	for _, p := range st.Peers {
		if p.Connected {
			now.hears = append(now.hears, p.ID)
		}
	}
	return now, nil
}

// late simulates a write that an earlier leader's job has sent long ago, and returns the log's answer.
func (s *processes) late(l life) error {
	g, err := openGuard(s.log())
	if err != nil {
		return err
	}
	return errors.Join(g.append(line{Token: l.token, ID: l.id, PID: os.Getpid()}), g.close())
}

// end ends the nodes: first those that do not lead, so that none of them takes over.
func (s *processes) end(leader int) {
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
	s.cluster.Close()
	s.ends.Wait()
}

// close frees the rest when the nodes are dead.
func (s *processes) close() {
	for _, c := range s.clients {
		if c != nil {
			_ = c.Close() // nothing is lost by it, here and below
		}
	}
	if s.local != nil {
		_ = s.local.Close()
	}
}
