package redis

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/electd/elect/store/internal/pool"
)

// listener listens with one connection to the channels of all keys of a client. A notification proves nothing, and
// polling makes up for a missed one.
type listener struct {
	channels *redis.PubSub
	keys     pool.Topics
	life     context.Context
	end      context.CancelFunc
	work     sync.WaitGroup
	poke     chan struct{} // watched has changed

	mu      sync.Mutex
	watched map[string]int // how many watch a key
	conns   map[net.Conn]struct{}
}

// silence is how long the connection may be silent before it is tried by a ping.
const silence = 10 * time.Second

func newListener(client *redis.Client) *listener {
	l := &listener{poke: make(chan struct{}, 1), watched: map[string]int{}, conns: map[net.Conn]struct{}{}}
	l.life, l.end = context.WithCancel(context.Background())
	// Its own client, which has no connection beside that of channels: close ends one that is not answered.
	own := *client.Options()
	own.Dialer, own.MinIdleConns = l.dialer(own.Dialer), 0
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	listens := redis.NewClient(&own)
	l.channels = listens.Subscribe(l.life)
	all := l.channels.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(silence))
	l.work.Go(func() {
		defer listens.Close()
		for m := range all {
			switch m := m.(type) {
			case *redis.Message:
				l.keys.Wake(m.Channel)
			case *redis.Subscription: // what was published before was not heard
				l.keys.Wake(m.Channel)
			}
		}
	})
	l.work.Go(l.tend)
	return l
}

// dialer returns one whose connections close can end: calls of channels wait for an answer, whatever their context.
func (l *listener) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.life, cancel)()
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if err := l.life.Err(); err != nil {
			_ = c.Close() // it has carried nothing
			return nil, err
		}
		l.conns[c] = struct{}{}
		return &listening{c, l}, nil
	}
}

// listening is a connection of a listener.
type listening struct {
	net.Conn
	of *listener
}

// Close implements [net.Conn].
func (c *listening) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c.Conn)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close ends the connection.
func (l *listener) close() error {
	l.end()
	l.mu.Lock()
	for c := range l.conns {
		_ = c.Close() // what waits for it returns
	}
	l.mu.Unlock()
	err := l.channels.Close()
	l.work.Wait()
	return err
}

// tend subscribes to the keys that are watched, and to no others. If it fails, the next connection begins with them.
func (l *listener) tend() {
	told := map[string]bool{}
	for {
		select {
		case <-l.poke:
		case <-l.life.Done():
			return
		}
		l.mu.Lock()
		keys := maps.Clone(l.watched)
		l.mu.Unlock()
		for key := range keys {
			if !told[key] {
				told[key] = true
				_ = l.channels.Subscribe(l.life, key)
			}
		}
		for _, key := range slices.Collect(maps.Keys(told)) {
			if keys[key] == 0 {
				delete(told, key)
				_ = l.channels.Unsubscribe(l.life, key)
			}
		}
	}
}

// watch calls changed after each notification for a key, until ctx ends.
func (l *listener) watch(ctx context.Context, key string, changed func()) {
	l.keys.Watch(ctx, key, func() { l.count(key, 1) }, changed)
	l.count(key, -1)
}

// count changes how many watch a key.
func (l *listener) count(key string, by int) {
	l.mu.Lock()
	if l.watched[key] += by; l.watched[key] == 0 {
		delete(l.watched, key)
	}
	l.mu.Unlock()
	select {
	case l.poke <- struct{}{}:
	default: // tend looks anyway
	}
}
