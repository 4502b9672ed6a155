//go:build linux

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/proc"
	"github.com/electd/elect/test/chaos/disk"
	"github.com/electd/elect/test/chaos/network"
)

const (
	nodeCount = 3
	user      = 65534 // of the nodes
	password  = "correct horse battery"
	promise   = 2 * time.Second // of the election
	diskSize  = 1500 << 20      // each promotion leaves a segment of WAL of 16 MiB until the next checkpoint
	bin       = "/usr/lib/postgresql/15/bin"
)

// cluster is three nodes and their clients. The goroutine of the test calls its methods.
type cluster struct {
	t       *testing.T
	dir     string
	elect   string
	net     network.Network
	disks   [nodeCount]disk.Disk
	nodes   [nodeCount]*process
	env     []string
	clients *exec.Cmd
	stop    io.Closer // ends the clients
	luck    uint64    // of the losses of power so far
}

// process is a node, which is started again when it has ended.
type process struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	over bool
	done sync.WaitGroup
}

func id(i int) string { return fmt.Sprint("n", i+1) }

// small is a disk that can be full.
func small(dir string) (disk.Disk, error) { return disk.NewTmpfs(dir, diskSize) }

// start makes a cluster on disks of a kind, and waits until it serves.
func start(t *testing.T, newDisk func(dir string) (disk.Disk, error), env ...string) *cluster {
	t.Helper()
	if _, err := os.Stat(filepath.Join(bin, "postgres")); err != nil {
		harness.Absent(t, err.Error()+"; on Debian: apt-get install postgresql")
	}
	harness.Need(t, "setpriv", "util-linux")
	// Others than root reach it, unlike t.TempDir. The path is short, because sockets are below it.
	dir, err := os.MkdirTemp("", "elect-pgc-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, elect: filepath.Join(dir, "elect"), env: env}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	tags := []string{}
	if len(env) > 0 {
		tags = append(tags, "mutants")
	}
	built := harness.Build(t, "../../../cmd/elect", tags...)
	if out, err := exec.Command("install", "-m", "755", built, c.elect).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if c.net, err = network.NewNamespaces(dir, nodeCount); err != nil {
		harness.Absent(t, err.Error())
	}
	t.Cleanup(func() { _ = c.net.Close() })
	c.configure(newDisk)
	for i := range c.nodes {
		c.nodes[i] = &process{}
		c.launch(i)
	}
	t.Cleanup(c.end)
	c.settled(time.Minute)
	return c
}

// host is where a node is.
func (c *cluster) host(i int) string {
	host, _, _ := net.SplitHostPort(c.net.Addr(i))
	return host
}

// configure makes the disks, certificates and files of the nodes.
func (c *cluster) configure(newDisk func(dir string) (disk.Disk, error)) {
	t := c.t
	t.Helper()
	certs := filepath.Join(c.dir, "certs")
	args := []string{"certs", "--dir", certs}
	var peers []string
	var nodes strings.Builder
	for i := range nodeCount {
		args = append(args, id(i)+"="+c.host(i))
		peers = append(peers, id(i)+"@"+c.net.Addr(i))
		fmt.Fprintf(&nodes, "  - {id: %s, postgres: \"%s:5432\", control: \"%s:8007\"}\n", id(i), c.host(i), c.host(i))
	}
	if out, err := exec.Command(c.elect, args...).CombinedOutput(); err != nil {
		t.Fatalf("elect certs: %v: %s", err, out)
	}
	for i := range nodeCount {
		home := filepath.Join(c.dir, id(i))
		d, err := newDisk(home)
		if err != nil {
			harness.Absent(t, err.Error())
		}
		t.Cleanup(func() { _ = d.Close() })
		c.disks[i] = d
		own := filepath.Join(c.dir, "c"+strconv.Itoa(i)) // what a full disk does not touch
		for name, text := range map[string]string{"password": password + "\n", "config.yaml": fmt.Sprintf(`name: main
id: %s
election: "peer://%s?listen=%s&data=%s&certs=%s&promise=%v"
nodes:
%sdata: %s/data
state: %s/state
socket: %s/s
listen: "*"
bin: %s
certs: %s
http: "%s:8008"
password-file: %s/password
hba: ["host all all 0.0.0.0/0 scram-sha-256"]
parameters: {shared_buffers: 16MB, checkpoint_timeout: 30s, max_wal_size: 64MB, min_wal_size: 32MB, wal_keep_size: 32MB, max_slot_wal_keep_size: 96MB}
`, id(i), strings.Join(peers, ","), c.net.Listen(i), d.Path()+"/peer", own+"/certs", promise, nodes.String(), d.Path(), d.Path(), own, bin, own+"/certs", c.host(i), own)} {
			if err := os.MkdirAll(own+"/s", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, do := range [][]string{
			{"cp", "-r", certs, own + "/certs"}, {"rm", own + "/certs/ca.key"}, {"chown", "-R", fmt.Sprint(user, ":", user), own, d.Path()},
			{"chmod", "755", home, filepath.Dir(d.Path())}, {"chmod", "700", own + "/s"},
		} {
			if out, err := exec.Command(do[0], do[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", do, err, out)
			}
		}
	}
}

// launch starts a node, and starts it again a second after it has ended.
func (c *cluster) launch(i int) {
	p := c.nodes[i]
	log, err := os.OpenFile(filepath.Join(c.dir, id(i)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	p.done.Go(func() {
		defer log.Close()
		for {
			cmd := c.net.Command(i, "setpriv", "--reuid="+strconv.Itoa(user), "--regid="+strconv.Itoa(user), "--clear-groups", "--",
				c.elect, "recipe", "postgres", "run", "--config", filepath.Join(c.dir, "c"+strconv.Itoa(i), "config.yaml"))
			cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
			cmd.Env = append(cmd.Env, c.env...)
			p.mu.Lock()
			if p.over {
				p.mu.Unlock()
				return
			}
			fmt.Fprintf(log, "--- %v start\n", time.Now().Format(time.TimeOnly))
			err := cmd.Start()
			p.cmd = cmd
			p.mu.Unlock()
			if err == nil {
				err = cmd.Wait()
			}
			fmt.Fprintf(log, "--- %v ended: %v\n", time.Now().Format(time.TimeOnly), err)
			<-time.After(time.Second)
		}
	})
}

// end ends all nodes.
func (c *cluster) end() {
	_ = c.net.Set(nil)
	for i, p := range c.nodes {
		p.mu.Lock()
		p.over = true
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		p.mu.Unlock()
		kill := time.AfterFunc(15*time.Second, func() { signal(c.tree(i), syscall.SIGKILL) })
		p.done.Wait()
		kill.Stop()
	}
	for i := range c.nodes {
		text, _ := os.ReadFile(filepath.Join(c.dir, id(i)+".log"))
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", id(i), text[max(0, len(text)-8000):])
		}
		_ = os.WriteFile(filepath.Join(c.t.ArtifactDir(), id(i)+".log"), text, 0o644)
	}
}

// tree are the processes of a node: the front, the keeper, the program, and PostgreSQL.
func (c *cluster) tree(i int) []int {
	p := c.nodes[i]
	p.mu.Lock()
	root := p.cmd.Process.Pid
	p.mu.Unlock()
	return append([]int{root}, harness.Descendants(root)...)
}

// The parts of a node, which are found by what they are called.
func (c *cluster) part(i int, is func(title string, parent int) bool) (pids []int) {
	for _, pid := range c.tree(i) {
		title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		s, _ := proc.Read(pid)
		if is(string(bytes.ReplaceAll(title, []byte{0}, []byte{' '})), s.Parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c *cluster) postmaster(i int) []int {
	return c.part(i, func(title string, _ int) bool {
		return strings.HasPrefix(title, bin+"/postgres -D") && strings.Contains(title, "elect.node=")
	})
}

// program is the process that embeds the election: the parent of the postmaster.
func (c *cluster) program(i int) []int {
	for _, pid := range c.postmaster(i) {
		if s, ok := proc.Read(pid); ok {
			return []int{s.Parent}
		}
	}
	all := c.part(i, func(title string, _ int) bool { return strings.HasPrefix(title, c.elect+" recipe") })
	return all[max(0, len(all)-1):]
}

func (c *cluster) walreceiver(i int) []int {
	return c.part(i, func(title string, _ int) bool { return strings.Contains(title, "walreceiver") })
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}

// powerLoss kills nodes at once, and takes from their disks what was not synced.
func (c *cluster) powerLoss(which ...int) {
	c.t.Helper()
	var all []int
	for range 2 { // a stopped process starts no other one
		all = nil
		for _, i := range which {
			all = append(all, c.tree(i)...)
		}
		signal(all, syscall.SIGSTOP)
	}
	for _, i := range which { // it is not started meanwhile
		c.nodes[i].mu.Lock()
		defer c.nodes[i].mu.Unlock()
	}
	signal(all, syscall.SIGKILL)
	for _, i := range which {
		c.luck++
		err := c.disks[i].Fault(disk.Fault{Luck: c.luck % 4, Torn: c.luck%2 == 1}) // with 0 nothing survives
		if err := errors.Join(err, c.disks[i].PowerLoss(), c.disks[i].Fault(disk.Fault{})); err != nil {
			c.t.Fatal(err)
		}
	}
}

// web asks a node past all faults.
func (c *cluster) web(i int, path string) int {
	out, err := c.net.Command(network.Operator, "curl", "-s", "-m", "1", "-o", "/dev/null", "-w", "%{http_code}", "http://"+c.host(i)+":8008"+path).Output()
	if err != nil {
		return 0
	}
	code, _ := strconv.Atoi(string(out))
	return code
}

// primaries are the nodes that say that they are the primary.
func (c *cluster) primaries() (all []int) {
	for i := range nodeCount {
		if c.web(i, "/primary") == http.StatusOK {
			all = append(all, i)
		}
	}
	return all
}

// settled waits until there is one primary which all others follow, and returns it.
func (c *cluster) settled(limit time.Duration) int {
	c.t.Helper()
	var primary int
	for late := time.Now().Add(limit); ; {
		all, replicas := c.primaries(), 0
		for i := range nodeCount {
			if c.web(i, "/replica") == http.StatusOK {
				replicas++
			}
		}
		if len(all) == 1 && replicas == nodeCount-1 {
			return all[0]
		}
		if primary = len(all); time.Now().After(late) {
			c.t.Fatalf("after %v there are %d primaries, and %d replicas follow; want 1 and %d", limit, primary, replicas, nodeCount-1)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// login are the settings of clients, beside where they connect.
const login = " user=postgres password='" + password + "' dbname=postgres sslmode=disable connect_timeout=2 application_name=client"

// dsn is where clients connect: to whichever of the nodes takes writes.
func (c *cluster) dsn() string {
	var hosts, ports []string
	for i := range nodeCount {
		hosts, ports = append(hosts, c.host(i)), append(ports, "5432")
	}
	return fmt.Sprintf("host=%s port=%s target_session_attrs=read-write", strings.Join(hosts, ","), strings.Join(ports, ",")) + login
}

// query runs a statement at a node, in the operator's network, by this test's program.
func (c *cluster) query(i int, query string) string {
	c.t.Helper()
	cmd := c.net.Command(network.Operator, bin+"/psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", query,
		fmt.Sprintf("host=%s port=5432 user=postgres dbname=postgres sslmode=disable connect_timeout=3", c.host(i)))
	cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%s: %v: %s", query, err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// work makes the table and starts the clients, which connect to dsn.
func (c *cluster) work(primary int, dsn string) {
	t := c.t
	t.Helper()
	c.query(primary, "CREATE TABLE rows (client int, n int, token bigint, seq bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (client, n))")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.clients = c.net.Command(network.Operator, self)
	c.clients.Env = append(c.clients.Env, clientsEnv+"="+c.dir, "DSN="+dsn)
	c.clients.Stderr = os.Stderr
	in, err := c.clients.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.clients.Start(); err != nil {
		t.Fatal(err)
	}
	c.stop = in
	t.Cleanup(func() {
		if c.clients.ProcessState == nil {
			_ = c.clients.Process.Kill()
			_ = c.clients.Wait()
		}
	})
}

// startup is the process that replays.
func (c *cluster) startup(i int) []int {
	return c.part(i, func(title string, _ int) bool { return strings.HasPrefix(title, "postgres: "+id(i)+": startup") })
}

// switchover asks for a planned one.
func (c *cluster) switchover(primary int, args ...string) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	cmd := c.net.Command(primary, "setpriv", "--reuid="+strconv.Itoa(user), "--regid="+strconv.Itoa(user), "--clear-groups", "--",
		c.elect, "recipe", "postgres", "switchover", "--config", filepath.Join(c.dir, "c"+strconv.Itoa(primary), "config.yaml"))
	cmd.Args = append(cmd.Args, args...)
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
