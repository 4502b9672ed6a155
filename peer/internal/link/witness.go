package link

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/peer/certs"
	"github.com/electd/elect/peer/internal/wire"
)

// WitnessConfig says for which node a witness may speak, and to which voters.
type WitnessConfig struct {
	Hello wire.Hello                 // of the node; Caller is set by StartWitness
	Enter wire.Enter                 // of the node: the election, the directory and the incarnation
	Peers map[protocol.NodeID]string // all voters; the node itself is skipped
	TLS   *certs.Identity            // of the node; nil: plain TCP
	Idle  time.Duration              // as Config.Idle
	Dial  func(ctx context.Context, addr string) (net.Conn, error)
}

// Witness keeps connections with the voters for one message, which may never be needed: that a node and all its work
// are dead.
type Witness struct {
	cfg    WitnessConfig
	need   int // how many voters must have acknowledged it
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	letter *wire.Letter
	spoken chan struct{} // closed when there is a letter
	open   map[protocol.NodeID]*stream
	taken  map[protocol.NodeID]bool
	errs   map[protocol.NodeID]error
	enough chan struct{} // closed when enough voters have acknowledged it
}

// witnessNumber is the number of a witness's one election.
const witnessNumber = 1

// StartWitness connects with the voters, in the background.
func StartWitness(cfg WitnessConfig) *Witness {
	cfg.Hello = visitor(cfg.Hello, wire.WitnessOf)
	cfg.Enter = wire.Enter{Number: witnessNumber, Election: cfg.Enter.Election, Dir: cfg.Enter.Dir, Incarnation: cfg.Enter.Incarnation}
	if cfg.Idle <= 0 {
		cfg.Idle = defaultIdle
	}
	w := &Witness{
		cfg: cfg, spoken: make(chan struct{}), enough: make(chan struct{}),
		open: make(map[protocol.NodeID]*stream), taken: make(map[protocol.NodeID]bool), errs: make(map[protocol.NodeID]error),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	others := maps.Clone(cfg.Peers)
	delete(others, cfg.Hello.ID)
	// A majority of all voters, the dead one included, if so many are left.
	w.need = min((len(others)+1)/2+1, len(others))
	if w.need == 0 {
		close(w.enough)
	}
	for id, addr := range others {
		w.work.Go(func() { w.keep(id, addr) })
	}
	return w
}

// Speak sends m to all voters at once, and returns nil when a majority has acknowledged it. It dials a voter that is
// not connected until ctx ends. Only the first message counts.
func (w *Witness) Speak(ctx context.Context, m *protocol.Message) error {
	w.mu.Lock()
	first := w.letter == nil && w.ctx.Err() == nil
	if first {
		w.letter = &wire.Letter{Number: witnessNumber, Message: *m}
		close(w.spoken)
	}
	if first {
		for _, s := range w.open {
			w.work.Go(func() { w.deliver(s) })
		}
	}
	w.mu.Unlock()
	select {
	case <-w.enough:
		return nil
	case <-ctx.Done():
	case <-w.ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err := fmt.Errorf("%d voters have taken it; want %d: %w", len(w.taken), w.need, errors.Join(ctx.Err(), w.ctx.Err()))
	for _, id := range slices.Sorted(maps.Keys(w.errs)) {
		if !w.taken[id] {
			err = errors.Join(err, fmt.Errorf("%s: %w", id, w.errs[id]))
		}
	}
	return err
}

// keep keeps a connection with one voter until it has acknowledged the message.
func (w *Witness) keep(id protocol.NodeID, addr string) {
	pauses := pauses{}
	for {
		begun := time.Now()
		s, err := w.enter(id, addr)
		if err == nil {
			err = w.hold(id, s)
			pauses.reset(time.Since(begun))
		}
		w.mu.Lock()
		w.errs[id] = err
		taken, spoken := w.taken[id], w.spoken
		if w.letter != nil {
			spoken = nil // there is no reason to hurry any more
		}
		w.mu.Unlock()
		if taken || w.ctx.Err() != nil {
			return
		}
		t := time.NewTimer(jitter(pauses.next()))
		select {
		case <-t.C:
		case <-spoken:
			pauses.last = 0
		case <-w.ctx.Done():
		}
		t.Stop()
		if w.ctx.Err() != nil {
			return
		}
	}
}

func (w *Witness) enter(id protocol.NodeID, addr string) (*stream, error) {
	ctx, cancel := context.WithTimeout(w.ctx, max(w.cfg.Idle, steady))
	defer cancel()
	hello := w.cfg.Hello
	s, err := enter(ctx, w.cfg.Dial, addr, &hello, w.cfg.TLS, id, w.cfg.Idle)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.raw.SetDeadline(time.Unix(1, 0)) })
	f, err := wire.Frame{}, s.put(&wire.Frame{Enter: &w.cfg.Enter})
	if err == nil {
		f, err = s.frames.Next()
	}
	switch {
	case !stop():
		err = ctx.Err()
	case err != nil:
	case f.Refusal != nil:
		err = f.Refusal
	case f.Welcome == nil || f.Welcome.Number != witnessNumber:
		err = errors.New("it said neither Welcome nor Refusal to what was entered")
	}
	if err != nil {
		_ = s.raw.Close()
		return nil, fmt.Errorf("%s at %s: %w", id, addr, err)
	}
	return s, nil
}

// hold reads a connection. Nothing is expected on it but, after the letter, the acknowledgement.
func (w *Witness) hold(id protocol.NodeID, s *stream) error {
	defer s.raw.Close()
	defer context.AfterFunc(w.ctx, func() { _ = s.raw.Close() })()
	w.mu.Lock()
	w.open[id] = s
	spoken := w.letter != nil
	w.mu.Unlock()
	if spoken {
		w.deliver(s)
	}
	f, err := s.frames.Next()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, id)
	switch {
	case err != nil:
		return err
	case f.Refusal != nil:
		return f.Refusal
	case f.Response == nil:
		return errors.New("it sent a frame that witnesses do not get")
	}
	w.taken[id] = true
	if len(w.taken) == w.need {
		close(w.enough)
	}
	return nil
}

// deliver writes the letter, and that nothing follows.
func (w *Witness) deliver(s *stream) {
	w.mu.Lock()
	letter := w.letter
	w.mu.Unlock()
	_ = s.raw.SetWriteDeadline(time.Now().Add(w.cfg.Idle))
	if err := s.put(&wire.Frame{Letter: letter}); err != nil {
		_ = s.raw.Close() // the reader ends, and the voter is dialled again
		return
	}
	s.closeWrite()
}

// Close ends all connections and waits for all goroutines. The kernel still delivers what was written before.
func (w *Witness) Close() error {
	w.mu.Lock() // so that Speak starts nothing after this
	w.cancel()
	w.mu.Unlock()
	w.work.Wait()
	return nil
}
