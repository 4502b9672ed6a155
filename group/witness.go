package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/electd/elect/group/internal/wire"
	"github.com/electd/elect/internal/protocol"
	machine "github.com/electd/elect/internal/protocol/group"
)

// WitnessConfig says what a testament does not. The zero value is for members with ports of their own, in plain TCP.
type WitnessConfig struct {
	// Configure is that of [OpenerWith]. For a member that did not come by a URL it gets a Config with the ID and the
	// Name, and sets TLS if the members have certificates. Nil sets nothing.
	Configure func(params url.Values, cfg *Config) error
	// Election is the witness of the coordinator's election, such as peer.Witness. With it the next coordinator need not
	// wait for the end of the lease of one that is dead. Nil is none.
	Election func(ctx context.Context, testament []byte) (speak func(context.Context) error, err error)
	// OpenStream is that of the back end of the coordinator's election, such as peer.OpenStream. It is required if that
	// has a [driver.Streamer].
	OpenStream func(ctx context.Context, key json.RawMessage, protocol, from, to, addr string) (net.Conn, error)
}

// Witness returns the supervise.Witness of members: when a process is dead, and all that its work has started, it tells
// the coordinator, as that member, so that the keys of the process are free at once. If the process was the coordinator,
// it also has the witness of its election speak.
//
// A report is about the whole process. The witness sends none if the process had work that no keeper has, such as that
// of an election without a guardian. The witness of the coordinator's election speaks even then, because a coordinator
// works in its own process only.
func Witness(cfg WitnessConfig) func(ctx context.Context, testament []byte) (speak func(context.Context) error, err error) {
	return func(_ context.Context, data []byte) (func(context.Context) error, error) {
		t := &testament{}
		if err := json.Unmarshal(data, t); err != nil {
			return nil, fmt.Errorf("testament: %w", err)
		}
		switch {
		case t.Scheme != testamentScheme || t.Version != testamentVersion:
			return nil, fmt.Errorf("testament of %q, version %d; want %q, %d", t.Scheme, t.Version, testamentScheme, testamentVersion)
		case t.ID == "" || t.Process == protocol.Nonce{}:
			return nil, errors.New("testament: it names no process")
		}
		// Nothing is opened before it is needed: the process may live for months, and its certificates do not.
		return func(ctx context.Context) error { return t.speak(ctx, &cfg) }, nil
	}
}

func (t *testament) speak(ctx context.Context, how *WitnessConfig) error {
	e, err := findRemains(t.Process)
	if err == nil {
		err = os.Chdir(t.Dir)
	}
	if err != nil {
		return err
	}
	var election error
	var work sync.WaitGroup
	if len(e.Election) > 0 && how.Election != nil {
		work.Go(func() {
			speak, err := how.Election(ctx, e.Election)
			if err == nil {
				err = speak(ctx)
			}
			if err != nil {
				election = fmt.Errorf("the coordinator's election: %w", err)
			}
		})
	}
	err = t.tell(ctx, how, &e)
	work.Wait()
	return errors.Join(election, err)
}

// tell tells the coordinator that the process is dead, if that is so of all its work.
func (t *testament) tell(ctx context.Context, how *WitnessConfig, e *remains) error {
	if e.Bare > 0 {
		return errors.New("the process had work that no keeper has, and its keys wait for the end of its promise; want a guardian of all its work")
	}
	cfg := Config{ID: t.ID, Name: t.Group}
	if how.Configure != nil {
		params, err := url.ParseQuery(t.Params)
		if err == nil {
			err = how.Configure(params, &cfg)
		}
		if err != nil {
			return err
		}
	}
	env := system()
	reach := direct(&env, cfg.TLS)
	switch {
	case t.Streams != nil && how.OpenStream == nil:
		return errors.New("the members use the ports of their coordinator's election; want group.WitnessConfig.OpenStream")
	case t.Streams != nil:
		reach = func(ctx context.Context, id, addr string) (net.Conn, error) {
			return how.OpenStream(ctx, t.Streams, streamProtocol, t.ID, id, addr)
		}
	case t.Secure && cfg.TLS == nil:
		return errors.New("the members have certificates, and the witness has none; want group.WitnessConfig.Configure to set group.Config.TLS")
	}
	return tell(ctx, reach, t, e)
}

// patience is how long the coordinator may take to answer before others are asked.
const patience = 50 * time.Millisecond

// teller tells coordinators, and those who may be the next one, that a process is dead, until one has understood it.
type teller struct {
	ctx   context.Context
	reach reach
	hello wire.Hello
	word  []byte
	heard chan error    // has the coordinator's answer
	cold  chan struct{} // has a value when somebody was not reached

	mu    sync.Mutex
	tried map[spot]error
	work  sync.WaitGroup
}

func tell(ctx context.Context, reach reach, t *testament, e *remains) error {
	word, err := json.Marshal(request{Process: t.Process})
	if err != nil {
		return err
	}
	within, cancel := context.WithCancel(ctx)
	h := &teller{
		ctx: within, reach: reach, word: word, heard: make(chan error, 1), cold: make(chan struct{}, 1), tried: map[spot]error{},
		hello: wire.Hello{Version: wire.Version, Group: t.Group, ID: t.ID, Bits: uint64(t.Bits), Control: true},
	}
	defer h.work.Wait()
	defer cancel()
	if e.Coordinator != (spot{}) {
		h.try(e.Coordinator)
		select {
		case err := <-h.heard:
			return err
		case <-h.cold:
		case <-time.After(patience):
		case <-ctx.Done():
		}
	}
	for _, s := range e.Others {
		h.try(s)
	}
	select {
	case err := <-h.heard:
		return err
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err = fmt.Errorf("no coordinator has understood that the process of %s is dead: %w", t.ID, context.Cause(ctx))
	for s, why := range h.tried {
		err = errors.Join(err, fmt.Errorf("%s at %s: %w", s.ID, s.Addr, why))
	}
	return err
}

// try tells one member, again and again.
func (h *teller) try(s spot) {
	h.mu.Lock()
	_, twice := h.tried[s]
	if !twice {
		h.tried[s] = errors.New("it has not answered")
	}
	h.mu.Unlock()
	if twice || h.ctx.Err() != nil {
		return
	}
	h.work.Go(func() {
		for pause := firstPause; ; pause = min(2*pause, lastPause) {
			err := h.once(s)
			if h.ctx.Err() != nil {
				return
			}
			if _, refused := errors.AsType[*failure](err); err == nil || refused {
				select {
				case h.heard <- err:
				default:
				}
				return
			}
			h.mu.Lock()
			h.tried[s] = err
			h.mu.Unlock()
			ring(h.cold)
			select {
			case <-time.After(pause):
			case <-h.ctx.Done():
				return
			}
		}
	})
}

// once tells one member. What it is told waits there for when it is the coordinator, and meanwhile it says who is.
func (h *teller) once(s spot) error {
	nc, r, err := dial(h.ctx, h.reach, &h.hello, target{id: s.ID, addr: s.Addr})
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(h.ctx, func() { _ = nc.Close() })()
	if err := wire.Write(nc, &wire.Packet{Side: &wire.Side{Kind: wire.Call, Call: 1, Method: "dead", Body: h.word}}); err != nil {
		return err
	}
	for {
		p, err := r.Next()
		switch {
		case err != nil:
			return err
		case p.Side == nil:
		case p.Side.Kind == wire.Places:
			for _, s := range spots(p.Side, "") {
				h.try(s)
			}
		case p.Side.Kind == wire.Reply && p.Side.Code != "":
			return errorOf(p.Side.Code, string(p.Side.Body))
		case p.Side.Kind == wire.Reply:
			return nil
		}
	}
}

// dead takes the word of a witness, which is authenticated as the member that it speaks of.
func (c *coordinator) dead(from *connection, call uint64, process protocol.Nonce) {
	if from.member == "" {
		c.answer(from, call, errors.New("a witness has not shown the certificate of its member; want that one"))
		return
	}
	if !from.control || process == (protocol.Nonce{}) {
		c.answer(from, call, errors.New("the word of a witness is of no process, or comes by a member's connection; want a process, and a connection of its own"))
		return
	}
	for _, s := range c.plan.sessions() {
		if s.Session.Process == process && string(s.Session.Member) != from.member {
			c.answer(from, call, fmt.Errorf("the process is that of %q, and the witness that of %q; want the same", s.Session.Member, from.member))
			return
		}
	}
	c.g.log.Info("a witness says that a process is dead, with all its work", "member", from.member)
	c.in = machine.Input{Kind: machine.Dead, Session: machine.Session{Member: protocol.NodeID(from.member), Process: process}}
	if c.step(); c.resigned == "" { // else the next coordinator has to hear it
		c.answer(from, call, nil)
	}
}
