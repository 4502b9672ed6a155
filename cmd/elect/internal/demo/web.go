package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"time"

	"github.com/electd/elect/cmd/elect/internal/livepage"
)

// verbs are the acts as the page calls them.
var verbs = [...]string{
	start: "start", kill: "kill", killJob: "kill-job", pause: "pause", wake: "resume", cut: "cut", heal: "heal", resign: "resign",
	transfer: "transfer", late: "late-write",
}

// chaos is the verb that begins and ends chaos.
const chaos = "chaos"

// endTime is how long the pages have for their last request.
const endTime = 2 * time.Second

// Web serves the laboratory's page about the nodes until ctx ends. It returns the cause of ctx, or what went wrong.
func Web(ctx context.Context, cfg Config) error {
	t, err := open(ctx, cfg)
	if err != nil {
		return errors.Join(err, cfg.Listener.Close())
	}
	t.tell(func(m *model) { m.record = newRecord() })
	token := rand.Text()
	page, err := livepage.New(livepage.Config{
		Token: token, Since: t.since, Do: t.verb, Verbs: append(slices.Clone(verbs[:]), chaos),
		About: map[string]any{"nodes": ids, "promise": t.model.promise, "profile": cfg.Profile, "dir": t.processes.dir},
	})
	if err != nil {
		return errors.Join(err, cfg.Listener.Close(), t.close())
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	t.run(func() error {
		if err := server.Serve(cfg.Listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	t.run(func() error { return t.unleash(t.ctx) })
	out := &printer{to: cfg.Out, colour: cfg.Colour}
	out.say(piece{"Three nodes run on this machine, each a process of its own. Watch them, and break them, in a browser:", normal})
	out.say()
	out.say(piece{"    http://" + cfg.Listener.Addr().String() + "/#token=" + token, strong})
	out.say()
	out.say(piece{"Anybody with this address can break them. Ctrl-C ends them.", normal})
	for i := range ids {
		t.do(start, i)
	}
	<-t.ctx.Done()
	why := context.Cause(t.ctx)
	page.End(why.Error())
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	if server.Shutdown(ending) != nil {
		_ = server.Close() // a page that does not read holds its connection
	}
	cancel()
	return t.conclude(0, why)
}

// since returns the events after one, for the page.
func (t *Demo) since(number uint64) livepage.Batch {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.model.record
	b := livepage.Batch{Last: r.last, Now: t.now(), More: t.changed}
	if events := r.after(number); len(events) > 0 {
		b.Events = events
	}
	return b
}

// verb does what the page asks for.
func (t *Demo) verb(ctx context.Context, verb, id string) error {
	if verb == chaos {
		_, err := t.key("x")
		return err
	}
	a := act(slices.Index(verbs[:], verb))
	i := index(id)
	switch {
	case a == resign:
		t.mu.Lock()
		i = t.model.worker()
		t.mu.Unlock()
		if i < 0 {
			return livepage.Refusal("No node leads: there is nothing to resign from.")
		}
	case a == late:
		i = 0
	case i < 0:
		return livepage.Refusal(fmt.Sprintf("There is no node %.40q; want one of n1, n2 and n3.", id))
	}
	answer := make(chan error, 1)
	select {
	case t.acts <- request{order{a, i}, answer}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}
