package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// hub listens with one connection to the channels of all keys of a client. A notification proves nothing, and polling
// makes up for a missed one.
type hub struct {
	channels *redis.PubSub
	work     sync.WaitGroup

	mu   sync.Mutex
	subs map[string]map[chan struct{}]struct{} // by the key
}

// silence is how long the connection may be silent before it is tried by a ping.
const silence = 10 * time.Second

func newHub(client *redis.Client) *hub {
	h := &hub{channels: client.Subscribe(context.Background()), subs: map[string]map[chan struct{}]struct{}{}}
	all := h.channels.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(silence))
	h.work.Go(func() {
		for m := range all {
			switch m := m.(type) {
			case *redis.Message:
				h.heard(m.Channel)
			case *redis.Subscription: // what was published before was not heard
				if h.heard(m.Channel) && m.Kind == "unsubscribe" { // another one has begun meanwhile
					_ = h.channels.Subscribe(context.Background(), m.Channel)
				}
			}
		}
	})
	return h
}

// close ends the connection.
func (h *hub) close() error {
	err := h.channels.Close()
	h.work.Wait()
	return err
}

// heard wakes the participants of a key, and reports whether there are any.
func (h *hub) heard(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for wake := range h.subs[key] {
		select {
		case wake <- struct{}{}:
		default: // it is awake
		}
	}
	return len(h.subs[key]) > 0
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
	_ = h.channels.Subscribe(ctx, key) // if it fails, the next connection begins with it
	defer func() {
		h.mu.Lock()
		delete(h.subs[key], wake)
		last := len(h.subs[key]) == 0
		if last {
			delete(h.subs, key)
		}
		h.mu.Unlock()
		if last {
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = h.channels.Unsubscribe(ending, key) // if it fails, there is no connection
		}
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
