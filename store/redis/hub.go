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
)

// hub listens with one connection to the channels of all keys of a client. A notification proves nothing, and polling
// makes up for a missed one.
type hub struct {
	channels *redis.PubSub
	life     context.Context
	end      context.CancelFunc
	work     sync.WaitGroup
	poke     chan struct{} // subs has other keys

	mu    sync.Mutex
	subs  map[string]map[chan struct{}]struct{} // by the key
	conns map[net.Conn]struct{}
}

// silence is how long the connection may be silent before it is tried by a ping.
const silence = 10 * time.Second

func newHub(client *redis.Client) *hub {
	h := &hub{poke: make(chan struct{}, 1), subs: map[string]map[chan struct{}]struct{}{}, conns: map[net.Conn]struct{}{}}
	h.life, h.end = context.WithCancel(context.Background())
	// Its own client, which holds no connection beside that of channels: one that is not answered can be ended.
	own := *client.Options()
	own.Dialer, own.MinIdleConns = h.dialer(own.Dialer), 0
	own.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	listens := redis.NewClient(&own)
	h.channels = listens.Subscribe(h.life)
	all := h.channels.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(silence))
	h.work.Go(func() {
		defer listens.Close()
		for m := range all {
			switch m := m.(type) {
			case *redis.Message:
				h.heard(m.Channel)
			case *redis.Subscription: // what was published before was not heard
				h.heard(m.Channel)
			}
		}
	})
	h.work.Go(h.tend)
	return h
}

// dialer returns one whose connections close can end: calls of channels wait for an answer, whatever their context.
func (h *hub) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(h.life, cancel)()
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if err := h.life.Err(); err != nil {
			_ = c.Close() // it has carried nothing
			return nil, err
		}
		h.conns[c] = struct{}{}
		return &listening{c, h}, nil
	}
}

// listening is a connection of a hub.
type listening struct {
	net.Conn
	hub *hub
}

// Close implements [net.Conn].
func (l *listening) Close() error {
	l.hub.mu.Lock()
	delete(l.hub.conns, l.Conn)
	l.hub.mu.Unlock()
	return l.Conn.Close()
}

// close ends the connection.
func (h *hub) close() error {
	h.end()
	h.mu.Lock()
	for c := range h.conns {
		_ = c.Close() // what waits for it returns
	}
	h.mu.Unlock()
	err := h.channels.Close()
	h.work.Wait()
	return err
}

// heard wakes the participants of a key.
func (h *hub) heard(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for wake := range h.subs[key] {
		select {
		case wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// tend subscribes to the keys that have participants, and to no others. If it fails, the next connection begins with
// them.
func (h *hub) tend() {
	told := map[string]struct{}{}
	for {
		select {
		case <-h.poke:
		case <-h.life.Done():
			return
		}
		h.mu.Lock()
		keys := maps.Clone(h.subs)
		h.mu.Unlock()
		for key := range keys {
			if _, is := told[key]; !is {
				told[key] = struct{}{}
				_ = h.channels.Subscribe(h.life, key)
			}
		}
		for _, key := range slices.Collect(maps.Keys(told)) {
			if _, is := keys[key]; !is {
				delete(told, key)
				_ = h.channels.Unsubscribe(h.life, key)
			}
		}
	}
}

// watch calls changed after each notification for a key, until ctx ends.
func (h *hub) watch(ctx context.Context, key string, changed func()) {
	wake := make(chan struct{}, 1)
	h.mu.Lock()
	if h.subs[key] == nil {
		h.subs[key] = map[chan struct{}]struct{}{}
	}
	h.subs[key][wake] = struct{}{}
	h.mu.Unlock()
	h.tell()
	defer func() {
		h.mu.Lock()
		if delete(h.subs[key], wake); len(h.subs[key]) == 0 {
			delete(h.subs, key)
		}
		h.mu.Unlock()
		h.tell()
	}()
	for {
		select {
		case <-wake:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// tell has tend look at the keys.
func (h *hub) tell() {
	select {
	case h.poke <- struct{}{}:
	default: // it will
	}
}
