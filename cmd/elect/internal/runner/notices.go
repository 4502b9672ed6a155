package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/sdnotify"
)

// notices is what the command of one term says of itself on its socket.
type notices struct {
	r      *run
	term   *elect.Term
	socket *sdnotify.Socket
	stop   context.CancelFunc
	others sync.WaitGroup
}

// supervised reports whether the command can be ill by what it says, or does not say.
func (c *Config) supervised() bool { return c.Watchdog > 0 || c.WaitReady > 0 }

// listen makes the socket of a term's command, and puts it into its environment. It returns nil where that is not
// possible, and with an error if it is needed.
func (r *run) listen(term *elect.Term, c *supervise.Command) (*notices, error) {
	socket, err := sdnotify.Listen()
	switch {
	case err == nil:
	case r.cfg.supervised():
		return nil, err
	default:
		if !errors.Is(err, errors.ErrUnsupported) {
			r.log().Warn("the command gets no NOTIFY_SOCKET", "error", err)
		}
		return nil, nil
	}
	c.Env = append(c.Env, sdnotify.EnvSocket+"="+socket.Name())
	if r.cfg.Watchdog > 0 {
		// No WATCHDOG_PID, which is not known: any process of the family may speak.
		c.Env = append(c.Env, sdnotify.EnvWatchdog+"="+strconv.FormatInt(r.cfg.Watchdog.Microseconds(), 10))
	}
	return &notices{r: r, term: term, socket: socket, stop: func() {}}, nil
}

// follow begins to listen, until the command has ended.
func (n *notices) follow(family *supervise.Family) {
	if n == nil {
		return
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	n.others.Go(func() { n.read(ctx) })
	n.others.Go(func() {
		select {
		case <-family.Exited():
		case <-ctx.Done():
		}
		_ = n.socket.Close()
	})
}

// close ends that, also if it has not begun.
func (n *notices) close() {
	if n == nil {
		return
	}
	n.stop()
	_ = n.socket.Close()
	n.others.Wait()
}

const (
	// lastWords is how long a message that was sent in time may take to be read.
	lastWords = 10 * time.Millisecond

	// frozen is how late this process sees that the time is over, if it did not run.
	frozen = time.Second
)

// read takes messages until the socket is closed: what nobody reads would block its sender. If the command is ill by
// them, it ends the term.
func (n *notices) read(ctx context.Context) {
	cfg := &n.r.cfg
	begun := time.Now()
	v := newVigil(begun, cfg.Watchdog, cfg.WaitReady, cfg.Grace)
	told, ill, last := false, false, false
	for {
		by := v.due()
		switch {
		case ill:
			by = time.Time{}
		case last:
			by = time.Now().Add(lastWords)
		}
		m, err := n.socket.Next(by)
		now := time.Now()
		silent := errors.Is(err, os.ErrDeadlineExceeded)
		_, broken := errors.AsType[*net.OpError](err)
		switch {
		case silent && !last:
			if now.Sub(by) > frozen {
				v.resume(now)
			}
			last = true
			continue
		case silent:
		case broken && errors.Is(err, net.ErrClosed):
			return
		case broken && cfg.supervised():
			n.term.GiveWay(fmt.Errorf("the command is not heard any more: %w", err))
			return
		case broken:
			return
		case err != nil && !told:
			told = true
			n.r.log().Warn("a message to NOTIFY_SOCKET is ignored", "error", err)
		}
		n.hear(ctx, v, m, now, begun)
		late := last && now.Sub(v.due()) > frozen // it says other things
		last = last && !silent && !now.Before(v.due())
		if !ill && (v.ill || silent || late) {
			if why := v.why(now); why != nil {
				ill = true
				n.term.GiveWay(why)
			}
		}
	}
}

// hear takes a message, and tells what is new.
func (n *notices) hear(ctx context.Context, v *vigil, m sdnotify.Message, now, begun time.Time) {
	was, status := v.ready, v.status
	v.hear(now, m)
	if v.status != status {
		n.r.log().Info("the command tells its status", "status", v.status)
		n.r.manager.status(n.r.leads(n.term.Token()) + ": " + v.status)
	}
	if v.ready && !was {
		n.ready(ctx, now.Sub(begun))
	}
}

// ready tells all that the command is active.
func (n *notices) ready(ctx context.Context, after time.Duration) {
	n.r.starting(false)
	n.r.tell(slog.LevelInfo, eventReady, n.term.Token(), "%s is ready, %v after its start", n.r.cfg.Args[0], after.Round(time.Millisecond))
	n.others.Go(func() { // the store may take its time
		if err := n.term.SetMetadata(ctx, n.r.metadata(true)); err != nil && ctx.Err() == nil {
			n.r.log().Info("observers are not told that the command is ready", "error", err)
		}
	})
}

// starting says whether a command of this candidate is not active yet, if READY=1 makes it that.
func (r *run) starting(is bool) {
	if r.cfg.WaitReady > 0 && r.face != nil {
		r.face.Starting(is)
	}
}
