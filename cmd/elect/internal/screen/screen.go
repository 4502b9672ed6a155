// Package screen draws on a terminal, and reads its keys. It writes only the lines that have changed. A [Screen] belongs
// to one goroutine; only Leave may be called by others. Errors are those of the terminal, which may be gone.
package screen

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// The control sequences before the first picture and after the last one: the alternate screen, no cursor, and no
// wrapping at the right edge.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
	End   = "\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Screen draws the changes since the last picture. It is not for a terminal that another process draws on.
type Screen struct {
	in, to        *os.File
	shown         []string // nil if not known
	width, height int

	mu    sync.Mutex
	state *term.State // before the first picture; nil once it is restored
}

// Open begins with an empty picture on the terminal, whose keys come from in, unchanged.
func Open(in, to *os.File) (*Screen, error) {
	s := &Screen{in: in, to: to}
	return s, s.begin()
}

func (s *Screen) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, err := term.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return err
	}
	s.state = state
	if _, err = io.WriteString(s.to, enter); err != nil {
		_ = term.Restore(int(s.in.Fd()), state) // the terminal is gone
	}
	s.shown = nil
	return err
}

// Leave restores the terminal. A second call does nothing.
func (s *Screen) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return
	}
	_, _ = io.WriteString(s.to, End) // the terminal may be gone
	_ = term.Restore(int(s.in.Fd()), s.state)
	s.state = nil
}

// stopTime is the longest time until a process that stops itself has stopped.
const stopTime = 100 * time.Millisecond

// Suspend gives the terminal back and stops the process, as Ctrl-Z does. It returns when the shell has continued it.
func (s *Screen) Suspend() error {
	s.Leave()
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, continueSignal)
	defer signal.Stop(goesOn)
	stop()
	select {
	case <-goesOn:
	case <-time.After(stopTime): // the process was not stopped, because no shell could continue it
	}
	return s.begin()
}

// Clear makes the next Draw write all lines.
func (s *Screen) Clear() { s.shown = nil }

// Draw shows a picture. It has at most height lines, none of them wider than width.
func (s *Screen) Draw(picture func(width, height int) []string) error {
	width, height, err := term.GetSize(int(s.to.Fd()))
	if err != nil {
		return err
	}
	if width <= 0 || height <= 0 { // some terminals do not report it
		width, height = 80, 24
	}
	if width != s.width || height != s.height {
		s.width, s.height = width, height
		s.Clear()
	}
	_, err = io.WriteString(s.to, s.update(picture(width, height)))
	return err
}

// update returns the text that changes the screen into the picture. It asks the terminal to show all changes at once;
// those that cannot ignore that.
func (s *Screen) update(lines []string) string {
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

// visible is the width of a line with colours.
func visible(line string) (n int) {
	in := false // in the sequence of a colour
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
