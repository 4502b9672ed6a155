package sim_test

import (
	"encoding/json"

	"github.com/electd/elect/lab/sim"
)

// storeGrounds are the worlds for the protocols over stores, in addition to the profiles.
func storeGrounds(protocol string) []ground {
	config := func(name, text string, seeds int) ground {
		return ground{name: name, options: sim.Options{Config: json.RawMessage(text)}, seeds: seeds}
	}
	back := func(text string) ground {
		g := config("a store that goes back", text, 200)
		g.options.Profile, g.options.Beyond = "storm", true
		g.options.Only = []sim.OpKind{sim.OpRollback, sim.OpStoreDown, sim.OpStoreSlow, sim.OpPause, sim.OpResign}
		return g
	}
	switch protocol {
	case "lease":
		return []ground{
			config("different durations", `{"each": {"n1": {"duration": 5000000000}, "n2": {"duration": 8000000000}}}`, 40),
			config("versions that begin anew", `{"global_versions": false}`, 40),
			back(`{}`), back(`{"global_versions": false}`),
		}
	case "queue", "queue-zookeeper":
		all := []ground{
			config("short sessions", `{"ttl": 4000000000, "max_hold": 2000000000}`, 20),
			config("a long hold", `{"hold": 10000000000, "max_hold": 10000000000}`, 40),
			config("different holds", `{"max_hold": 10000000000, "each": {"n1": {"hold": 10000000000}, "n2": {"hold": 8000000000}}}`, 60),
		}
		if protocol == "queue" {
			hangs := config("mended servers that hang", `{"servers_mended": true}`, 40)
			hangs.options.Profile, hangs.options.Only = "storm", []sim.OpKind{sim.OpStoreHang, sim.OpStoreElect, sim.OpStoreDown, sim.OpPause, sim.OpKill}
			all = append(all, config("mended servers", `{"servers_mended": true}`, 200), hangs)
		}
		return all
	}
	return nil
}
