package runner

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/group"
)

// Groups has the metrics of the groups that this process is a member of. Elections of one group share its member. A nil
// Groups has none.
type Groups struct {
	Registry prometheus.Registerer

	mu   sync.Mutex
	used map[*group.Group]*memberMetrics
}

type memberMetrics struct {
	collector *electprom.Group
	users     int
}

// use adds the metrics of an election's group, if it is in one, until done is called.
func (m *Groups) use(e *elect.Election, log *slog.Logger) (done func()) {
	var g *group.Group
	if m == nil || !e.As(&g) {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.used[g]
	if of == nil {
		of = &memberMetrics{collector: electprom.NewGroup(g.Name(), g)}
		if err := m.Registry.Register(of.collector); err != nil {
			log.Warn("the metrics of a group are not served: another one of this process has its name; want another group-name in one of the URLs", "group", g.Name())
			return func() {}
		}
		if m.used == nil {
			m.used = map[*group.Group]*memberMetrics{}
		}
		m.used[g] = of
	}
	of.users++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if of.users--; of.users == 0 {
			m.Registry.Unregister(of.collector)
			delete(m.used, g)
		}
	}
}
