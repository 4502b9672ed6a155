package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
)

// fake is a database.
type fake struct {
	l      *lab
	i      int
	done   chan struct{}
	slow   time.Duration // of a copy
	ends   time.Duration // of an orderly end
	probe  error
	frozen bool
	ops    []string
	broken bool // pg_rewind fails
	// refuses is why no standby starts.
	refuses error
	replay  time.Duration // of a promotion; below 0 its recovery hangs
	ticks   int           // of that
}

// with runs f on the server under the lock of the lab.
func (f *fake) with(op string, do func(s *pg) error) error {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if op != "" {
		f.ops = append(f.ops, op)
	}
	return do(f.l.servers[f.i])
}

func (f *fake) Empty() (empty bool, err error) {
	err = f.with("", func(s *pg) error { empty = s.system == 0; return nil })
	return empty, err
}

func (f *fake) Init(ctx context.Context) error {
	pause(ctx, time.Second)
	return f.with("init", func(s *pg) error {
		*s = pg{system: 77, path: []fork{{1, 0}}, files: map[uint32][]fork{}, from: -1, weak: -1, acks: map[int]uint64{}}
		return ctx.Err()
	})
}

func (f *fake) begin(s *pg) {
	if !s.up {
		f.done = make(chan struct{})
	}
	s.up = true
}

func (f *fake) end(s *pg) {
	if s.up {
		close(f.done)
	}
	s.up, s.stream = false, false
}

func (f *fake) StartPrimary(_ context.Context, token uint64) error {
	return f.with("start primary", func(s *pg) error {
		f.begin(s)
		s.primary, s.names = true, token
		return nil
	})
}

func (f *fake) to(s *pg, from *server.Upstream) {
	s.from, s.stream = -1, false
	if from == nil {
		return
	}
	i := slices.IndexFunc(f.l.nodes, func(n *Node) bool { return n.s.ID == from.ID })
	s.from, s.as = i, from.Token
	s.clean(f.l.servers[i].path)
}

func (f *fake) StartStandby(_ context.Context, from *server.Upstream) error {
	return f.with("start standby", func(s *pg) error {
		if f.refuses != nil {
			return f.refuses
		}
		f.begin(s)
		s.primary = false
		f.to(s, from)
		return nil
	})
}

func (f *fake) Running() (up bool) {
	_ = f.with("", func(s *pg) error { up = s.up; return nil })
	return up
}

func (f *fake) Done() <-chan struct{} {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.done
}

func (f *fake) Stop(ctx context.Context, mode server.Mode) error {
	if mode == server.Fast {
		pause(ctx, f.ends)
	}
	return f.with(fmt.Sprintf("stop %d", mode), func(s *pg) error {
		if s.up && s.primary && mode == server.Fast { // the replicas get all, and the checkpoint
			f.l.n++
			s.log = append(s.log, row{s.names, -f.l.n})
			for j, o := range f.l.servers {
				for o.stream && o.from == f.i && len(o.log) < len(s.log) {
					flow(f.l.servers, j, true)
				}
			}
		}
		f.end(s)
		return nil
	})
}

func (f *fake) Follow(_ context.Context, from server.Upstream) error {
	return f.with("follow", func(s *pg) error {
		if !s.up || s.primary {
			return errors.New("no standby runs")
		}
		f.to(s, &from)
		return nil
	})
}

func (f *fake) Detach(context.Context) (p server.Position, err error) {
	err = f.with("detach", func(s *pg) error {
		if s.up && s.primary {
			return errors.New("it is a primary")
		}
		s.from, s.stream = -1, false
		p = s.position()
		return nil
	})
	return p, err
}

func (f *fake) Position(context.Context) (p server.Position, err error) {
	err = f.with("", func(s *pg) error { p = s.position(); return nil })
	return p, err
}

func (f *fake) Promote(ctx context.Context, token uint64) (p server.Position, err error) {
	for begun := time.Now(); ctx.Err() == nil; pause(ctx, time.Second) {
		if f.with("", func(*pg) error {
			if f.replay >= 0 && time.Since(begun) >= f.replay {
				return errors.New("it has replayed all")
			}
			if f.replay > 0 || f.ticks == 0 {
				f.ticks++
			}
			return nil
		}) != nil {
			break
		}
	}
	err = f.with("promote", func(s *pg) error {
		f.ticks = 0
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !s.up || s.primary || s.from >= 0 {
			return errors.New("no standby of nobody runs")
		}
		s.promote(token)
		p = s.position()
		return nil
	})
	return p, err
}

func (f *fake) write(ctx context.Context) error {
	at := -1
	var token uint64
	err := f.with("", func(s *pg) error {
		if !s.up || !s.primary {
			return errors.New("not a primary")
		}
		f.l.n++
		token, at = s.names, len(s.log)
		s.log = append(s.log, row{s.names, f.l.n})
		return nil
	})
	for err == nil {
		ok := false
		err = f.with("", func(s *pg) error {
			if !s.up || !s.primary || s.names != token {
				return errors.New("the server has ended")
			}
			all := slices.Sorted(maps.Values(s.acks))
			k := f.l.nodes[f.i].s.Confirm
			if ok = len(all) >= k && all[len(all)-k] > uint64(at); ok {
				f.l.acked = append(f.l.acked, s.log[at])
			}
			return nil
		})
		if ok {
			return nil
		}
		if pause(ctx, 5*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}

func (f *fake) Mark(ctx context.Context, _ uint64, _ string, _ uint32) error { return f.write(ctx) }

func (f *fake) Slots(context.Context, []string) error { return nil }

func (f *fake) Flushed(_ context.Context, id string) (lsn uint64, err error) {
	err = f.with("", func(s *pg) error {
		if !s.up {
			return errors.New("it does not run")
		}
		i := slices.IndexFunc(f.l.nodes, func(n *Node) bool { return n.s.ID == id })
		if o := f.l.servers[i]; o.stream && o.from == f.i {
			lsn = s.acks[i]
		}
		return nil
	})
	return lsn, err
}

func (f *fake) Checkpoint(context.Context) error { return nil }

func (f *fake) Rewind(_ context.Context, from server.Upstream, change func() error) error {
	if err := f.with("", func(*pg) error { _, err := f.source(from); return err }); err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	return f.with("rewind", func(s *pg) error {
		if f.broken {
			return errors.New("pg_rewind has failed")
		}
		return f.from(s, from)
	})
}

// source is the server that others copy from.
func (f *fake) source(from server.Upstream) (*pg, error) {
	i := slices.IndexFunc(f.l.nodes, func(n *Node) bool { return n.s.ID == from.ID })
	if o := f.l.servers[i]; o.up && !f.l.deaf[i] && !f.l.cut[[2]int{f.i, i}] {
		return o, nil
	}
	return nil, errors.New("the primary does not answer")
}

func (f *fake) from(s *pg, from server.Upstream) error {
	o, err := f.source(from)
	if err != nil {
		return err
	}
	s.copyOf(o)
	return nil
}

func (f *fake) Rebuild(ctx context.Context, from server.Upstream, replace func() error) error {
	pause(ctx, f.slow)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := f.with("", func(*pg) error { _, err := f.source(from); return err }); err != nil {
		return err
	}
	if err := replace(); err != nil {
		return err
	}
	return f.with("rebuild", func(s *pg) error { return f.from(s, from) })
}

func (f *fake) Reload(context.Context, server.Config) ([]string, error) { return nil, nil }

func (f *fake) Stopped() (stopped bool) {
	_ = f.with("", func(s *pg) error { stopped = f.frozen && s.up; return nil })
	return stopped
}

func (f *fake) Recovery() (ticks int) {
	_ = f.with("", func(*pg) error { ticks = f.ticks; return nil })
	return ticks
}

func (f *fake) Probe(ctx context.Context) (err error) {
	_ = f.with("", func(*pg) error { err = f.probe; return nil })
	return err
}
