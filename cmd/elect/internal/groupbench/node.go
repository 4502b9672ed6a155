package groupbench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/group"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/clock"
)

// Use is how the keys are led.
type Use string

// The uses.
const (
	Shards    Use = "shards"    // by Group.Serve: each member wants all of them
	Elections Use = "elections" // by an Elector each: of a group, or of a store
	Native    Use = "native"    // by elections of etcd's client, in one session for each process
)

// quiet is how long placement waits after members have come or gone. The default of 10 s would make each round longer
// and change no figure: it delays only moves of keys that are held.
const quiet = 2 * time.Second

// NodeConfig configures a node. All but Guardian, Promise and two of Election, Open and Endpoint are required.
type NodeConfig struct {
	Use          Use
	ID           string
	Index, Nodes int // it is that one of so many
	Keys         int

	// One of them, as Use says.
	Election *elect.Election                                                // of the coordinator, for shards and elections of a group
	Open     func(ctx context.Context, name string) (driver.Elector, error) // for elections of a store
	Endpoint *Endpoint                                                      // for those of etcd's client

	Guardian elect.Guardian // of shards; nil is none
	Promise  time.Duration  // of the group; 0 is its default

	In  io.Reader
	Out io.Writer
}

// node is one RunNode.
type node struct {
	cfg NodeConfig
	g   *group.Group // nil if there is none

	mu    sync.Mutex
	log   []event
	held  int
	begun int
}

// player leads keys.
type player interface {
	stand(second bool)
	yield()         // returns when nothing is held
	trouble() error // the latest, since it stands
	give(key int) error
	leave(ctx context.Context) error
}

// RunNode does what it is told until its input ends.
func RunNode(ctx context.Context, cfg NodeConfig) error {
	n := &node{cfg: cfg, log: make([]event, 0, 4*cfg.Keys)}
	var p player
	switch {
	case cfg.Election != nil:
		c := group.Config{
			ID: cfg.ID, Guardian: cfg.Guardian, Promise: cfg.Promise,
			Placement: func() (placement.Placer, error) { return placement.New(placement.Settings{Quiet: quiet}) },
		}
		if cfg.Use == Shards {
			c.Keys = group.Range(cfg.Keys)
		}
		g, err := group.Join(ctx, cfg.Election, c)
		if err != nil {
			return err
		}
		defer g.Close()
		n.g = g
		if p = (&shards{n: n}); cfg.Use == Elections {
			p = newCandidates(n, func(_ context.Context, key int) (contender, error) { return elector{g.Elector(name(key))}, nil }, g.Leave)
		}
	case cfg.Open != nil:
		p = newCandidates(n, func(ctx context.Context, key int) (contender, error) {
			e, err := cfg.Open(ctx, name(key))
			return elector{e}, err
		}, nil)
	default:
		s, err := cfg.Endpoint.session(ctx)
		if err != nil {
			return err
		}
		defer s.close()
		p = newCandidates(n, s.contender, nil)
	}
	out := json.NewEncoder(cfg.Out)
	if err := out.Encode(n.answer()); err != nil {
		return err
	}
	lines := bufio.NewScanner(cfg.In)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("an order does not parse: %w", err)
		}
		a, err := n.obey(ctx, p, &o)
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (n *node) answer() answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := answer{PID: os.Getpid(), Parent: os.Getppid(), Held: n.held, Begun: n.begun}
	if n.g != nil {
		a.Coordinates = n.g.Measure().Coordinates
	}
	return a
}

func (n *node) obey(ctx context.Context, p player, o *order) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var status *group.Status
	var heap uint64
	var log []byte
	switch o.Do {
	case doStand, doSecond:
		p.stand(o.Do == doSecond)
	case doYield:
		p.yield()
	case doCount:
	case doTrouble:
		err = p.trouble()
	case doLog:
		log = n.take()
	case doHeap:
		heap = collected()
	case doStatus:
		var s group.Status
		s, err = n.g.Status(ctx)
		status = &s
	case doMove:
		// One of two candidates that has just lost the key does not stand again yet.
		for err = n.g.Move(ctx, name(o.Key), ""); errors.Is(err, elect.ErrIneligible) && wait(ctx, look) == nil; {
			err = n.g.Move(ctx, name(o.Key), "")
		}
	case doGive:
		err = p.give(o.Key)
	case doLeave:
		if err = p.leave(ctx); err == nil {
			log = n.take()
		}
	default:
		err = fmt.Errorf("there is no order %q", o.Do)
	}
	a = n.answer()
	a.Status, a.Heap, a.Log = status, heap, log
	return a, err
}

// collected is what is reachable of the heap, in bytes.
func collected() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// take returns the events since the last time.
func (n *node) take() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := encode(n.log)
	n.log = n.log[:0]
	return b
}

func (n *node) began(key int, token fence.Token) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held++
	n.begun++
	n.log = append(n.log, event{Key: int32(key), At: int64(clock.Now()), Token: uint64(token)})
}

// ended is called before the key is given up.
func (n *node) ended(key int, token fence.Token, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held--
	n.log = append(n.log, event{Key: int32(key), At: int64(clock.Now()), Token: uint64(token), Ended: true, Lost: lost})
}

// shards are the keys of a group that its members know.
type shards struct {
	n    *node
	stop context.CancelFunc
	done chan error
}

func (s *shards) stand(second bool) {
	if second || s.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.done = cancel, make(chan error, 1)
	go func() {
		s.done <- s.n.g.Serve(ctx,
			func(sh *group.Shard) { s.n.began(number(sh.Key()), sh.Token()) },
			func(sh *group.Shard) { s.n.ended(number(sh.Key()), sh.Token(), expired(sh.Check())) })
	}()
}

// expired reports whether a term has ended because it was not proven any more.
func expired(err error) bool {
	lost, ok := errors.AsType[*elect.LostError](err)
	return ok && (lost.Reason == elect.ReasonExpired || lost.Reason == elect.ReasonStoreUnreachable)
}

func (s *shards) yield() {
	if s.stop == nil {
		return
	}
	s.stop()
	<-s.done
	s.stop = nil
}

func (s *shards) trouble() error {
	select {
	case err := <-s.done: // by itself
		s.done <- err
		return err
	default:
		return nil
	}
}

func (s *shards) give(int) error { return errors.New("shards are moved; want the order move") }

func (s *shards) leave(ctx context.Context) error { return s.n.g.Leave(ctx, 0) }
