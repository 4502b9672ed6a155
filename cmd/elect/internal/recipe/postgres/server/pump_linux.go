package server

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// pump passes whole lines on, and keeps the last one that says why a program ended.
type pump struct {
	to io.Writer // may be nil

	mu   sync.Mutex
	rest []byte // of a line
	last string
	gone bool // a walreceiver was told that the WAL which it needs has been removed
}

const maxLine = 8 << 10 // bytes; a longer line is passed on in parts

func newPump(to io.Writer) *pump { return &pump{to: to} }

// Write takes a part of the output. It always succeeds.
func (p *pump) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		at := bytes.IndexByte(b, '\n')
		if at < 0 && len(p.rest)+len(b) < maxLine {
			p.rest = append(p.rest, b...)
			break
		}
		part := b
		if at >= 0 {
			part, b = b[:at], b[at+1:]
		} else {
			b = nil
		}
		p.line(string(append(p.rest, part...)))
		p.rest = p.rest[:0]
	}
	return n, nil
}

// Close passes on what is left.
func (p *pump) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rest) > 0 {
		p.line(string(p.rest))
		p.rest = nil
	}
}

func (p *pump) line(text string) {
	if strings.Contains(text, "service file") && strings.Contains(text, "not found") {
		return // a standby that follows nobody says so all the time
	}
	if strings.Contains(text, "requested WAL segment") && strings.Contains(text, "has already been removed") {
		p.gone = true
	}
	// A hint or the end of all is not the reason.
	if reason := strings.Contains(text, "FATAL:") || strings.Contains(text, "PANIC:") || strings.Contains(text, "error:"); reason || p.last == "" {
		p.last = text
	}
	if strings.HasPrefix(text, "pg_waldump: error: error in WAL record") || strings.HasPrefix(text, "pg_waldump: error: could not find a valid record") {
		return // so it says where the WAL ends
	}
	if p.to != nil {
		_, _ = p.to.Write([]byte(text + "\n"))
	}
}

// Last is that line.
func (p *pump) Last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Gone reports whether the sender has removed WAL that this server needs.
func (p *pump) Gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}
