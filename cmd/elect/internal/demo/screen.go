package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/electd/elect/cmd/elect/internal/screen"
)

// ErrInterrupted is the error of Live after Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// redraw is how often the picture is drawn.
const redraw = 50 * time.Millisecond

// Live plays on the terminal, which must also be stdin, until the user quits. It returns an error if anything went
// wrong, and ErrInterrupted after Ctrl-C. If ctx ends it early it returns the cause. Live restores the terminal when
// it returns or panics.
func Live(ctx context.Context, cfg Config) error {
	t, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	err = t.live()
	if err == nil || errors.Is(err, ErrInterrupted) {
		fmt.Fprintln(cfg.Out, "The nodes are being ended.")
	}
	lives := 0
	t.tell(func(m *model) { lives = len(m.ledger.lives) })
	return t.conclude(lives, err)
}

func (t *Demo) live() error {
	s, err := screen.Open(os.Stdin, t.cfg.Terminal)
	if err != nil {
		return err
	}
	defer s.Leave()
	over, stop := context.WithCancel(t.ctx)
	keys := make(chan string, 16)
	t.run(func() error { return screen.ReadKeys(over, os.Stdin, keys) })
	t.run(func() error { return t.unleash(over) })
	defer stop()
	resized, unwatch := screen.WatchSize()
	defer unwatch()
	for i := range ids {
		t.do(start, i)
	}
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		if err := s.Draw(t.picture); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-resized:
			s.Clear()
		case key := <-keys:
			switch quit, err := t.key(key); {
			case err != nil:
				return err
			case quit:
				return nil
			}
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		}
	}
}

// picture is what the terminal shows now.
func (t *Demo) picture(width, height int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.model.tick(t.now())
	return picture(t.model, frame{width: width, height: height, colour: t.cfg.Colour, ascii: t.cfg.ASCII})
}
