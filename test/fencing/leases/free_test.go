//go:build linux && cgo

package leases_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/fencing/server"
)

// TestKeeperFrees has elect run at real stores, with leases of 12 s. When elect run was killed, its keeper frees the
// lease, and when the command was, elect run does: the next one leads long before the lease has run out. When elect
// run is only frozen, its family is killed, and the lease runs out.
func TestKeeperFrees(t *testing.T) {
	long.Full(t, "it needs a machine that is not busy; it waits for leases")
	program := harness.Build(t, "../../../cmd/elect")
	all := stores(t, "12s")
	all["etcd with TLS"] = func(t *testing.T) string {
		e := startSecureEtcd(t)
		return e.url("cacert", "cert", "cert_key", "server_name") + "&lease=12s&max_hold=2s"
	}
	for name, at := range all {
		t.Run(name, func(t *testing.T) {
			url := at(t)
			begin := func(id string) *candidate { return stands(t, program, url, id) }
			a := begin("a")
			a.leads(t)
			for _, c := range []struct {
				kill  string
				how   func(c *candidate, work int) error
				early bool // before the lease could have run out
			}{
				{"elect run killed", func(c *candidate, _ int) error { return c.cmd.Process.Kill() }, true},
				{"command killed", func(_ *candidate, work int) error { return syscall.Kill(work, syscall.SIGKILL) }, true},
				{"elect run frozen", func(c *candidate, _ int) error { return c.cmd.Process.Signal(syscall.SIGSTOP) }, false},
			} {
				b := begin("next after " + c.kill)
				harness.Eventually(t, "it stands by", func() bool {
					return strings.Contains(b.said.String(), "standing by for e (behind") || strings.Contains(b.said.String(), "leads")
				})
				work := a.leads(t)
				begun := time.Now()
				if err := c.how(a, work); err != nil {
					t.Fatal(err)
				}
				b.leads(t)
				took := time.Since(begun)
				if early := took < 6*time.Second; early != c.early {
					t.Errorf("%s: the next one leads after %v; want it before 6 s: %t", c.kill, took, c.early)
				}
				if syscall.Kill(work, 0) == nil {
					t.Errorf("%s: the command is alive when the next one leads", c.kill)
				}
				t.Logf("%s: the next one leads after %v", c.kill, took)
				a = b
			}
		})
	}
}

// stores are those that the command has, with elections of that lease.
func stores(t *testing.T, lease string) map[string]func(t *testing.T) string {
	at := map[string]func(t *testing.T) string{"etcd": func(t *testing.T) string {
		return strings.Replace(startEtcd(t).URL, "http://", "etcd://", 1) + "/free?max_hold=2s&lease=" + lease
	}, "consul": func(t *testing.T) string {
		return fmt.Sprintf("consul://%s/free?lease=%s&max_lease=%[2]s", server.StartConsul(t).Addr, lease)
	}, "kubernetes": func(t *testing.T) string {
		return leaseURL(t, server.StartKubernetes(t), "admin", "", "max_lease="+lease+"&lease="+lease)
	}, "redis": func(t *testing.T) string {
		return "redis://" + server.StartRedis(t).Addr + "?max_lease=" + lease + "&lease=" + lease
	}, "zookeeper": func(t *testing.T) string {
		return "zookeeper://" + server.StartZooKeeper(t).Addr + "/free?max_hold=2s&lease=" + lease
	}, "nats": func(t *testing.T) string {
		b := newBucket(t, server.StartNATS(t))
		b.times = "lease=" + lease + "&max_lease=" + lease
		return b.url("")
	}, "s3": func(t *testing.T) string {
		s3Credentials(t)
		o := newObjects(t, server.StartS3(t))
		o.times = "poll=1s&lease=" + lease + "&max_lease=" + lease
		return o.url("")
	}}
	for name, start := range databases(t) {
		if name != "sqlite" {
			at[name] = func(t *testing.T) string {
				d := start(t)
				u := *d.place(t).at
				q := u.Query()
				q.Set("lease", lease)
				q.Set("max_lease", lease)
				u.RawQuery = q.Encode()
				return u.String()
			}
		}
	}
	return at
}

// candidate is an elect run whose command writes its process id.
type candidate struct {
	cmd         *exec.Cmd
	said, wrote *harness.Buffer
}

func stands(t testing.TB, program, url, id string) *candidate {
	t.Helper()
	cmd := exec.Command(program, "run", "--once", "--election", url, "--name", "e", "--id", strings.ReplaceAll(id, " ", "-"), "--", "sh", "-c", "echo $$; exec sleep 1000")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(t.TempDir(), "state"))
	return began(t, id, cmd)
}

func began(t testing.TB, id string, cmd *exec.Cmd) *candidate {
	t.Helper()
	c := &candidate{cmd: cmd, said: &harness.Buffer{}, wrote: &harness.Buffer{}}
	c.cmd.Stderr, c.cmd.Stdout = c.said, c.wrote
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.end()
		if t.Failed() {
			fmt.Fprintf(t.Output(), "%s said:\n%s", id, c.said)
		}
	})
	return c
}

func (c *candidate) signal(sig syscall.Signal) { _ = c.cmd.Process.Signal(sig) }

// end kills it, and waits until its command is dead too.
func (c *candidate) end() { harness.End(c.cmd) }

// leads waits until the command runs, and returns its process id.
func (c *candidate) leads(t testing.TB) (pid int) {
	t.Helper()
	harness.Eventually(t, "it leads", func() bool {
		line, _, whole := strings.Cut(c.wrote.String(), "\n")
		pid, _ = strconv.Atoi(line)
		return whole
	})
	return pid
}
