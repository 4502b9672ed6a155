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

// notices reads what the command of one term says of itself on its socket.
type notices struct {
	r      *run
	term   *elect.Term
	socket *sdnotify.Socket
	stop   context.CancelFunc
	others sync.WaitGroup
}

// supervised reports whether messages of the command, or their absence, can make it ill.
func (c *Config) supervised() bool { return c.Watchdog > 0 || c.WaitReady > 0 }

// listen makes the socket of a term's command, and puts its name into the command's environment. If that is not
// possible it returns nil, and an error only if the socket is needed.
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
		// Without WATCHDOG_PID, which is not known yet, any process of the family may send it.
		c.Env = append(c.Env, sdnotify.EnvWatchdog+"="+strconv.FormatInt(r.cfg.Watchdog.Microseconds(), 10))
	}
	return &notices{r: r, term: term, socket: socket, stop: func() {}}, nil
}

// follow begins to read, until the command has ended.
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

// close closes the socket, and joins what follow has started.
func (n *notices) close() {
	if n == nil {
		return
	}
	n.stop()
	_ = n.socket.Close()
	n.others.Wait()
}

const (
	// lastRead is how long read waits, after the time is over, for a message that was sent in time.
	lastRead = 10 * time.Millisecond

	// frozen is the delay, in seeing that the time is over, from which on this process is taken not to have run.
	frozen = time.Second
)

// read takes messages until the socket is closed: unread messages would block their sender. If the command is ill, read
// ends the term.
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
			by = time.Now().Add(lastRead)
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
		late := last && now.Sub(v.due()) > frozen // its messages are about other things
		last = last && !silent && !now.Before(v.due())
		if !ill && (v.ill || silent || late) {
			if why := v.why(now); why != nil {
				ill = true
				n.term.GiveWay(why)
			}
		}
	}
}

// hear takes a message, and reports what is new.
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

// ready reports that the command is active: in the log, over HTTP and in the leader's metadata.
func (n *notices) ready(ctx context.Context, after time.Duration) {
	n.r.starting(false)
	n.r.tell(slog.LevelInfo, eventReady, n.term.Token(), "%s is ready, %v after its start", n.r.cfg.Args[0], after.Round(time.Millisecond))
	n.others.Go(func() { // the store may be slow
		if err := n.term.SetMetadata(ctx, n.r.metadata(true)); err != nil && ctx.Err() == nil {
			n.r.log().Info("observers are not told that the command is ready", "error", err)
		}
	})
}

// starting sets whether the work is not active yet. It does nothing if it is active from the start.
func (r *run) starting(is bool) {
	h := &r.cfg.Hooks
	if (r.cfg.WaitReady > 0 || h.Fence.Run != "" || r.cfg.Stonith != nil || h.Activate.Run != "") && r.handler != nil {
		r.handler.Starting(is)
	}
}
