//go:build linux

package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// Consul is a server of Consul. Its methods belong to the test's goroutine.
type Consul struct {
	*process
	Addr  string // HOST:PORT of its HTTP API
	Token string // may do anything; "" without ACLs
	args  []string

	gossip string // where it hears of the others
}

// StartConsul starts one server, with further flags. It syncs what it commits.
func StartConsul(t testing.TB, flags ...string) *Consul {
	t.Helper()
	return StartConsulCluster(t, 1, flags...)[0]
}

// StartConsulACL is StartConsul with a default policy of deny. Its Token is that of the management.
func StartConsulACL(t testing.TB) *Consul {
	t.Helper()
	const management = "00000000-0000-4000-8000-000000000001"
	return startConsuls(t, 1, management, "-hcl", fmt.Sprintf(`acl { enabled = true, default_policy = "deny", tokens { initial_management = %q } }`, management))[0]
}

// StartConsulCluster is StartConsul for a cluster of that many servers.
func StartConsulCluster(t testing.TB, servers int, flags ...string) []*Consul {
	t.Helper()
	return startConsuls(t, servers, "", flags...)
}

// StartAgent starts an agent that is no server, as each machine has one, and passes its requests on to the servers.
func (c *Consul) StartAgent(t testing.TB) *Consul {
	t.Helper()
	free := harness.FreeAddrs(t, 2)
	a := newConsul(t, "a1", free[0], free[1], "-retry-join", c.gossip)
	a.Token = c.Token
	StartConsuls(t, a)
	return a
}

// newConsul is an agent that has not started.
func newConsul(t testing.TB, name, addr, gossip string, flags ...string) *Consul {
	t.Helper()
	port := func(addr string) string { _, port, _ := strings.Cut(addr, ":"); return port }
	p := newProcess(t, "consul")
	return &Consul{process: p, Addr: addr, gossip: gossip, args: append([]string{
		ConsulProgram(t), "agent", "-node", name, "-data-dir", filepath.Join(p.dir, "data"), "-bind", "127.0.0.1", "-client", "127.0.0.1",
		"-http-port", port(addr), "-serf-lan-port", port(gossip), "-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1", "-grpc-tls-port", "-1",
		"-log-level", "warn", "-retry-interval", "1s", "-hcl", "disable_update_check = true",
	}, flags...)}
}

func startConsuls(t testing.TB, servers int, token string, flags ...string) []*Consul {
	t.Helper()
	long.Full(t, "it starts a real server, which CI does not build")
	free, all := harness.FreeAddrs(t, 3*servers), make([]*Consul, servers)
	for i := range all {
		own := free[3*i:]
		_, port, _ := strings.Cut(own[2], ":")
		args := append([]string{
			"-server", "-bootstrap-expect", fmt.Sprint(servers), "-server-port", port,
			"-hcl", "performance { raft_multiplier = 1 }", "-hcl", "connect { enabled = false }",
		}, flags...)
		for j := range servers {
			if j != i {
				args = append(args, "-retry-join", free[3*j+1])
			}
		}
		all[i] = newConsul(t, fmt.Sprintf("m%d", i+1), own[0], own[1], args...)
		all[i].Token = token
	}
	StartConsuls(t, all...)
	return all
}

// StartConsuls starts servers that may need each other, and returns when all answer.
func StartConsuls(t testing.TB, servers ...*Consul) {
	t.Helper()
	for _, c := range servers {
		cmd := c.command(c.args[0], c.args[1:]...)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CONSUL_") })
		c.launch(t, cmd)
	}
	for _, c := range servers {
		c.answers(t, func(ctx context.Context) error {
			status, says, err := c.Ask(ctx, http.MethodPut, "/v1/kv/ready", "yes")
			if err == nil && (status != http.StatusOK || says != "true\n" && says != "true") {
				err = fmt.Errorf("%d: %s", status, says)
			}
			return err
		})
	}
}

// Start starts the server, and returns when it answers.
func (c *Consul) Start(t testing.TB) { t.Helper(); StartConsuls(t, c) }

// Ask makes a request of its HTTP API.
func (c *Consul) Ask(ctx context.Context, method, path, body string) (status int, says string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Addr+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("X-Consul-Token", c.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Do is Ask, which has to be answered 200.
func (c *Consul) Do(t testing.TB, method, path, body string) string {
	t.Helper()
	status, says, err := c.Ask(t.Context(), method, path, body)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, path, status, says, err)
	}
	return says
}

// Command is one of Consul's command line, which asks the server. It does not outlive the test.
func (c *Consul) Command(args ...string) *exec.Cmd {
	cmd := c.command(c.args[0], args...)
	cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+c.Addr, "CONSUL_HTTP_TOKEN="+c.Token)
	return cmd
}

// ConsulProgram is where Consul is. It skips the test where there is none.
func ConsulProgram(t testing.TB) string {
	t.Helper()
	return built(t, "consul")
}
