package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/electd/elect/internal/cli"
)

// progress is how far a series of runs is: finished runs, all runs, and a remark. The goroutine
// that watches calls it.
type progress func() (ran, all uint64, says string)

// watch shows the progress until done is closed: a bar at a terminal; elsewhere a line after two
// seconds, and then one every ten. A short run needs none.
func (p progress) watch(w io.Writer, terminal bool, done <-chan struct{}) {
	first, every := 2*time.Second, 10*time.Second
	if terminal {
		first, every = time.Second, 100*time.Millisecond
	}
	begin, shown := time.Now(), false
	tick := time.NewTicker(first)
	defer tick.Stop()
	for {
		select {
		case <-done:
			if shown && terminal {
				fmt.Fprint(w, "\r\x1b[K")
			}
			return
		case <-tick.C:
			ran, all, says := p()
			if !shown {
				tick.Reset(every)
			}
			shown = true
			text := fmt.Sprintf("%d of %d runs, %s%.0f s", ran, all, says, time.Since(begin).Seconds())
			if terminal {
				fmt.Fprintf(w, "\r\x1b[K%s %s", bar(ran, all), text)
			} else {
				fmt.Fprintf(w, "electlab: %s\n", text)
			}
		}
	}
}

// during runs a function while w shows its progress.
func (p progress) during(w io.Writer, do func()) {
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		p.watch(w, cli.AtTerminal(os.Stderr), done)
	}()
	do()
	close(done)
	<-watched
}

func bar(done, all uint64) string {
	const width = 24
	full := 0
	if all > 0 {
		full = int(min(done*width/all, width))
	}
	text := []rune("[" + fmt.Sprintf("%*s", width, "") + "]")
	for i := range full {
		text[1+i] = '#'
	}
	return string(text)
}

// thousands writes a number with a comma after every three digits.
func thousands(n uint64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
