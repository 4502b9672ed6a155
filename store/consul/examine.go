package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/electd/elect/driver"
)

// examine asks the agent for its version and for the servers.
func (k *key) examine(ctx context.Context) ([]driver.Finding, error) {
	var leader string
	if err := k.ask(ctx, "status/leader", &leader); err != nil {
		return nil, err
	}
	var servers []string
	if err := k.ask(ctx, "status/peers", &servers); err != nil {
		return nil, err
	}
	n := len(servers)
	found := append(k.agent(ctx),
		driver.Finding{What: "leader of the servers", Value: leader, Means: "it takes writes"},
		driver.Finding{What: "servers", Value: fmt.Sprint(n), Means: fmt.Sprintf("Consul answers while %d of %d do", n/2+1, n)},
		k.rights(ctx))
	if leader == "" {
		f := &found[len(found)-3]
		f.Value, f.Wrong, f.Means = "none", true, "no write is taken, and nobody can be elected"
	}
	return append(found, driver.Finding{
		What: "restore", Value: "not told", Means: "Consul does not tell that a snapshot was restored; stop the participants before that, and raise era",
	}), nil
}

// agent says what the agent is, if the token may know that.
func (k *key) agent(ctx context.Context) []driver.Finding {
	var self struct {
		Config      struct{ Version, Datacenter string }
		DebugConfig struct{ DevMode bool }
	}
	version := driver.Finding{What: "version", Value: "not told", Means: "elections need transactions, which Consul has from 0.7 on; the tests ran 1.21.0"}
	if err := k.ask(ctx, "agent/self", &self); err != nil {
		version.Means += fmt.Sprintf(" (%v)", err)
		return []driver.Finding{version}
	}
	version.Value = "Consul " + self.Config.Version
	dc := driver.Finding{What: "datacenter", Value: k.Datacenter, Means: "the key is there; another datacenter has another key of that name"}
	if dc.Value == "" {
		dc.Value = self.Config.Datacenter
	}
	found := []driver.Finding{version, dc}
	if self.DebugConfig.DevMode {
		found = append(found, driver.Finding{
			What: "mode", Value: "dev", Wrong: true, Means: "the agent keeps everything in memory, and forgets what it has acknowledged when it ends; want servers with a data directory",
		})
	}
	return found
}

// rights says whether the token is enough to lead. Nothing is changed for that.
func (k *key) rights(ctx context.Context) driver.Finding {
	f := driver.Finding{What: "rights", Value: "enough", Means: "the token may read and write the key"}
	if err := k.Admit(ctx); err != nil {
		f.Value, f.Wrong, f.Means = "not known", driver.IsPermanent(err), err.Error()
		if isDenied(err) {
			f.Value = "missing"
		}
	}
	return f
}

// ask reads an answer that is JSON.
func (k *key) ask(ctx context.Context, path string, into any) error {
	a, err := k.do(ctx, http.MethodGet, path, k.query(), nil, http.StatusOK)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("the answer of /v1/%s is not JSON of Consul: %w", path, err)
	}
	return nil
}
