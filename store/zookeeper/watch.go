package zookeeper

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/electd/elect/store/internal/queue"
)

// watched is a watch at the server, which tells of one event. All that watch one path on a line share it, because no
// request ends it: else one that is asked for again and again would leave something behind each time.
type watched struct {
	done chan struct{} // closed by the event, or the end of the watch
	err  error         // why it has ended without one; to be read after done
}

// watch watches the text of an entry, or the children of the queue if path is that. It returns what was there when it
// watched already.
func (l *line) watch(ctx context.Context, path string, children bool) (found node, w *watched, err error) {
	l.mu.Lock()
	w = l.watched[path]
	l.mu.Unlock()
	if w != nil {
		found, err = l.look(ctx, path, children)
		return found, w, err
	}
	type begun struct {
		node
		events <-chan zk.Event
	}
	b, err := call(ctx, l, func(c *zk.Conn) (b begun, err error) {
		if children {
			b.children, b.stat, b.events, err = c.ChildrenW(path)
		} else {
			b.data, b.stat, b.events, err = c.GetW(path)
		}
		return b, err
	})
	if err != nil {
		return found, nil, err
	}
	w = &watched{done: make(chan struct{})}
	l.mu.Lock()
	l.watched[path] = w
	counted := l.begin()
	l.mu.Unlock()
	if !counted {
		return found, nil, queue.ErrGone
	}
	go func() {
		defer l.requests.Done()
		if e := <-b.events; e.Type == zk.EventNotWatching {
			w.err = e.Err
		}
		l.mu.Lock()
		if l.watched[path] == w {
			delete(l.watched, path)
		}
		l.mu.Unlock()
		close(w.done)
	}()
	return b.node, w, nil
}

// node is what is read of a znode.
type node struct {
	data     []byte
	children []string
	stat     *zk.Stat
}

// look reads a znode.
func (l *line) look(ctx context.Context, path string, children bool) (node, error) {
	return call(ctx, l, func(c *zk.Conn) (n node, err error) {
		if children {
			n.children, n.stat, err = c.Children(path)
		} else {
			n.data, n.stat, err = c.Get(path)
		}
		return n, err
	})
}

// Watch implements [queue.Queue]. A candidate watches in its session, in which it lists.
func (s *store) Watch(ctx context.Context, e queue.Entry, _ uint64) error {
	path := e.Key
	if e.Order == 0 {
		path = s.path
	}
	found, w, err := s.present().watch(ctx, path, e.Order == 0)
	switch {
	case err != nil && isOne(err, zk.ErrNoNode, queue.ErrGone):
		return goneOr(err)
	case err != nil:
		return err
	case e.Order == 0 && len(s.candidates(found.children)) > 0:
		return nil
	case e.Order != 0 && (uint64(found.stat.Czxid) != e.Order || entry(path, &found).Text != e.Text):
		return nil
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
