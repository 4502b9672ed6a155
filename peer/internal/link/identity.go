package link

import (
	"slices"
	"time"
)

const (
	lookTime  = time.Minute    // between two looks at this node's own certificate
	sameWorry = 24 * time.Hour // before the same is said about it again
)

// watchIdentity says in the log what an operator should know about this node's
// certificate before others refuse it.
func (l *Link) watchIdentity() {
	w := worries{said: make(map[string]time.Time)}
	w.last = l.cfg.TLS.Warnings() // so that at the start all of it is said
	t := time.NewTicker(lookTime)
	defer t.Stop()
	for {
		for _, text := range w.due(l.cfg.TLS.Warnings(), time.Now()) {
			l.log.Warn("this node's certificate", "id", l.cfg.Hello.ID, "problem", text)
		}
		select {
		case <-t.C:
		case <-l.ctx.Done():
			return
		}
	}
}

// worries are what there is to say about a certificate. One goroutine uses them.
type worries struct {
	last []string // at the last look
	said map[string]time.Time
}

// due is what is to be said now: what was so at the last look as well, for the
// files of a renewal change one after the other, and was not said for a day.
func (w *worries) due(now []string, at time.Time) (due []string) {
	for _, text := range now {
		before, ok := w.said[text]
		if slices.Contains(w.last, text) && (!ok || at.Sub(before) >= sameWorry) {
			due = append(due, text)
			w.said[text] = at
		}
	}
	for text, before := range w.said {
		if at.Sub(before) >= sameWorry {
			delete(w.said, text)
		}
	}
	w.last = now
	return due
}
