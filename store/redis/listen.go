package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/electd/elect/store/internal/pool"
)

// listener listens with one connection to the channels of all keys of a client. A notification proves nothing, and
// polling makes up for a missed one.
type listener struct {
	channels *redis.PubSub
	keys     pool.Topics
	work     sync.WaitGroup
}

// silence is how long the connection may be silent before it is tried by a ping.
const silence = 10 * time.Second

func newListener(client *redis.Client) *listener {
	l := &listener{channels: client.Subscribe(context.Background())}
	all := l.channels.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(silence))
	l.work.Go(func() {
		for m := range all {
			switch m := m.(type) {
			case *redis.Message:
				l.keys.Wake(m.Channel)
			case *redis.Subscription: // what was published before was not heard
				if l.keys.Wake(m.Channel) && m.Kind == "unsubscribe" { // another one has begun meanwhile
					_ = l.channels.Subscribe(context.Background(), m.Channel)
				}
			}
		}
	})
	return l
}

// close ends the connection.
func (l *listener) close() error {
	err := l.channels.Close()
	l.work.Wait()
	return err
}

// watch calls changed after each notification for a key, until ctx ends.
func (l *listener) watch(ctx context.Context, key string, changed func()) {
	last := l.keys.Watch(ctx, key, func() {
		_ = l.channels.Subscribe(ctx, key) // if it fails, the next connection begins with it
	}, changed)
	if last {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = l.channels.Unsubscribe(ending, key) // if it fails, there is no connection
	}
}
