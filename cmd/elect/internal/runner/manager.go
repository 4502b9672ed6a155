package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/electd/elect/cmd/elect/internal/sdnotify"
)

// manager is the service manager that has started this process, such as systemd. Nothing waits for it: a message that
// its socket does not take at once is dropped. The zero manager is none.
type manager struct {
	socket string        // "" is none
	every  time.Duration // between two WATCHDOG=1; 0 is never
	log    *slog.Logger

	warn, ready, stopping sync.Once
}

// take reads the variables of the manager, and removes them from the environment, so that no child of this process has
// them.
func (m *manager) take(log *slog.Logger) {
	m.socket, m.log = os.Getenv(sdnotify.EnvSocket), log
	watchdog, pid := os.Getenv(sdnotify.EnvWatchdog), os.Getenv(sdnotify.EnvWatchdogPID)
	for _, name := range []string{sdnotify.EnvSocket, sdnotify.EnvWatchdog, sdnotify.EnvWatchdogPID} {
		_ = os.Unsetenv(name) // the name is valid
	}
	if m.socket == "" || watchdog == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return
	}
	limit, err := sdnotify.ParseTime(watchdog)
	if err != nil {
		log.Warn(fmt.Sprintf("the service manager gets no WATCHDOG=1: %s is %.100q; %v", sdnotify.EnvWatchdog, watchdog, err))
	}
	m.every = limit / 2
}

func (m *manager) say(message string) {
	if m.socket == "" {
		return
	}
	if err := sdnotify.Send(m.socket, message); err != nil {
		m.warn.Do(func() {
			m.log.Warn("the service manager is not told: " + err.Error())
		})
	}
}

// up tells that this candidate takes part.
func (m *manager) up() { m.ready.Do(func() { m.say("READY=1") }) }

// down tells that this process is about to end.
func (m *manager) down() { m.stopping.Do(func() { m.say("STOPPING=1") }) }

func (m *manager) status(text string) {
	m.say("STATUS=" + strings.ReplaceAll(text, "\n", " ")) // a further line would be another field
}

// feed sends WATCHDOG=1 in time, while live returns nil, until ctx ends.
func (m *manager) feed(ctx context.Context, live func() error) {
	if m.every <= 0 {
		return
	}
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		if live() == nil {
			m.say("WATCHDOG=1")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
