package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// ErrInterrupted is the error of Live after Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// redraw is how often the picture is drawn.
const redraw = 50 * time.Millisecond

// The control sequences before the first picture and after the last one: the alternate screen, no cursor, and no
// wrapping at the right edge.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	leaveScreen = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

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
	in := int(os.Stdin.Fd())
	state, err := term.MakeRaw(in)
	if err != nil {
		return err
	}
	defer term.Restore(in, state)
	s := &screen{to: t.cfg.Terminal}
	defer s.leave()
	if err := s.enter(); err != nil {
		return err
	}
	over, stop := context.WithCancel(t.ctx)
	keys := make(chan string, 16)
	t.run(func() error { return readKeys(over, os.Stdin, keys) })
	t.run(func() error { return t.unleash(over) })
	defer stop()
	resized, unwatch := watchSize()
	defer unwatch()
	for i := range ids {
		t.do(start, i)
	}
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		if err := s.draw(t); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-resized:
			s.clear()
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

// screen draws the changes since the last picture.
type screen struct {
	to            *os.File
	shown         []string // nil: not known
	width, height int
}

func (s *screen) enter() error {
	_, err := io.WriteString(s.to, enterScreen)
	return err
}

func (s *screen) leave() { _, _ = io.WriteString(s.to, leaveScreen) } // the terminal may be gone

// clear forgets what is shown.
func (s *screen) clear() { s.shown = nil }

func (s *screen) draw(t *Demo) error {
	width, height, err := term.GetSize(int(s.to.Fd()))
	if err != nil {
		return err
	}
	if width <= 0 || height <= 0 { // some terminals do not report it
		width, height = 80, 24
	}
	if width != s.width || height != s.height {
		s.width, s.height = width, height
		s.clear()
	}
	t.mu.Lock()
	t.model.tick(t.now())
	lines := picture(t.model, frame{width: width, height: height, colour: t.cfg.Colour, ascii: t.cfg.ASCII})
	t.mu.Unlock()
	_, err = io.WriteString(s.to, s.update(lines))
	return err
}

// update is the text that changes the screen into the picture. It asks terminals that can to show it at once.
func (s *screen) update(lines []string) string {
	var b strings.Builder
	if s.shown == nil {
		b.WriteString("\x1b[2J")
	}
	for i, line := range lines {
		if s.shown == nil || i >= len(s.shown) || s.shown[i] != line {
			fmt.Fprintf(&b, "\x1b[%d;1H%s", i+1, line)
			if visible(line) < s.width { // otherwise the cursor is on the last character, which this would erase
				b.WriteString("\x1b[K")
			}
		}
	}
	s.shown = lines
	if b.Len() == 0 {
		return ""
	}
	return "\x1b[?2026h" + b.String() + "\x1b[?2026l"
}

// visible is the width of a painted line.
func visible(line string) (n int) {
	in := false // a colour
	for _, r := range line {
		switch {
		case r == '\x1b':
			in = true
		case in:
			in = r != 'm'
		default:
			n++
		}
	}
	return n
}
