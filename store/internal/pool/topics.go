package pool

import (
	"context"
	"sync"
)

// Topics wakes those who watch a topic, such as a channel of notifications. Its zero value is ready. It is safe for
// concurrent use.
type Topics struct {
	mu       sync.Mutex
	watchers map[string]map[chan struct{}]struct{}
}

// Wake wakes those who watch a topic, and reports whether there are any.
func (t *Topics) Wake(topic string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	wakeAll(t.watchers[topic])
	return len(t.watchers[topic]) > 0
}

// WakeAll wakes those who watch any topic.
func (t *Topics) WakeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, watchers := range t.watchers {
		wakeAll(watchers)
	}
}

func wakeAll(watchers map[chan struct{}]struct{}) {
	for wake := range watchers {
		select {
		case wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// Watch calls began when wakes count, and then changed after each wake, or once after several, until ctx ends. It
// reports whether nobody watches the topic any more.
func (t *Topics) Watch(ctx context.Context, topic string, began, changed func()) (last bool) {
	wake := make(chan struct{}, 1)
	t.mu.Lock()
	if t.watchers == nil {
		t.watchers = map[string]map[chan struct{}]struct{}{}
	}
	if t.watchers[topic] == nil {
		t.watchers[topic] = map[chan struct{}]struct{}{}
	}
	t.watchers[topic][wake] = struct{}{}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.watchers[topic], wake)
		if last = len(t.watchers[topic]) == 0; last {
			delete(t.watchers, topic)
		}
	}()
	for began(); ; {
		select {
		case <-wake:
			changed()
		case <-ctx.Done():
			return
		}
	}
}
