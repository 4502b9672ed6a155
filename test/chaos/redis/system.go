//go:build linux

package redis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/test/chaos/network"
)

// Nodes is how many nodes a system has: each with a server, an elector or a Sentinel, and a client.
const Nodes = 3

// Setting is what a system is made of.
type Setting struct {
	Sentinel  bool // Redis Sentinel keeps the master; false: elect recipe redis
	DownAfter time.Duration
	MaxLag    int    // min-replicas-max-lag, in seconds, of both
	Fence     bool   // the recipe has a fence command, which kills a server by its process id
	Mutant    string // a mistake that elect is told to make
	Elect     string // the programs
	Worker    string
	Dir       string // gets the files
}

// System is a running system.
type System struct {
	Setting
	net     network.Network
	servers [Nodes]*exec.Cmd
	keepers [Nodes]*exec.Cmd // electors or Sentinels
	writers []*exec.Cmd
	stdins  []io.Closer
	logs    []*os.File
	starts  chan func() // are called on one thread, whose end ends the processes
}

// Start starts a system in namespaces, with clients that write.
func Start(s Setting) (_ *System, err error) {
	y := &System{Setting: s, starts: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range y.starts {
			start()
		}
	}()
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	if y.net, err = network.NewNamespaces(s.Dir, Nodes); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			y.Close()
		}
	}()
	if err := os.WriteFile(filepath.Join(s.Dir, "secret"), []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		return nil, err
	}
	for i := range Nodes {
		if err := y.prepare(i); err != nil {
			return nil, err
		}
		if err := y.startServer(i); err != nil {
			return nil, err
		}
	}
	for i := range Nodes {
		if err := y.startKeeper(i); err != nil {
			return nil, err
		}
	}
	if err := y.settle(30 * time.Second); err != nil {
		return nil, err
	}
	return y, nil
}

func (y *System) host(i int) string   { return y.net.Hosts(i)[0] }
func (y *System) server(i int) string { return net.JoinHostPort(y.host(i), "6379") }
func (y *System) dir(i int) string    { return filepath.Join(y.Dir, "server"+strconv.Itoa(i)) }
func (y *System) data(i int) string   { return filepath.Join(y.dir(i), "data") }
func (y *System) sentinels() (s string) {
	return y.each(func(i int) string { return y.host(i) + ":26379" }, ",")
}

func (y *System) each(text func(i int) string, between string) string {
	var all []string
	for i := range Nodes {
		all = append(all, text(i))
	}
	return strings.Join(all, between)
}

// prepare writes the configurations of node i.
func (y *System) prepare(i int) error {
	if err := os.MkdirAll(y.data(i), 0o755); err != nil {
		return err
	}
	conf := fmt.Sprintf("port 6379\nbind 0.0.0.0\nprotected-mode no\ndir %s\nsave 3600 1\nrepl-diskless-sync-delay 0\nlogfile %s\npidfile %s\n", y.data(i), filepath.Join(y.dir(i), "log"), filepath.Join(y.dir(i), "pid"))
	if y.Sentinel { // the recipe sets these itself
		conf += fmt.Sprintf("min-replicas-to-write 1\nmin-replicas-max-lag %d\n", y.MaxLag)
	}
	if i > 0 {
		conf += fmt.Sprintf("replicaof %s 6379\n", y.host(0))
	}
	keeper := fmt.Sprintf("port 26379\nbind 0.0.0.0\nprotected-mode no\ndir %s\nsentinel monitor mymaster %s 6379 2\nsentinel down-after-milliseconds mymaster %d\nsentinel failover-timeout mymaster 2000\nsentinel parallel-syncs mymaster 2\n",
		y.dir(i), y.host(0), y.DownAfter.Milliseconds())
	if !y.Sentinel {
		keeper = fmt.Sprintf(`name: mymaster
election: peer://%s?data=%s&insecure=true
id: e%d
state: %s
secret-file: %s
down-after: %v
min-replicas-max-lag: %d
listen: {address: '0.0.0.0:26379'}
electors: [%s]
servers: [%s]
`, y.each(func(i int) string { return fmt.Sprintf("e%d@%s", i, y.net.Addr(i)) }, ","), filepath.Join(y.dir(i), "election"),
			i, filepath.Join(y.dir(i), "state"), filepath.Join(y.Dir, "secret"), y.DownAfter, y.MaxLag,
			y.each(func(i int) string { return fmt.Sprintf("{id: e%d, address: '%s:26379'}", i, y.host(i)) }, ", "),
			y.each(func(i int) string { return fmt.Sprintf("{id: r%d, address: '%s'}", i, y.server(i)) }, ", "))
		if y.Fence { // a way to the machine that no cut of the network ends; 0 says that the process is dead
			keeper += fmt.Sprintf("fence: {run: 'p=$(cat %s/server${ELECT_SERVER#r}/pid) && kill -9 $p && until ! test -e /proc/$p || grep -q \"^State:.Z\" /proc/$p/status; do sleep 0.01; done'}\n", y.Dir)
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(y.dir(i), "redis.conf"), []byte(conf), 0o644), os.WriteFile(y.keeperConf(i), []byte(keeper), 0o644))
}

func (y *System) keeperConf(i int) string { return filepath.Join(y.dir(i), "keeper.conf") }

// start starts a program on a node, which ends with this process.
func (y *System) start(i int, log string, program string, args ...string) (*exec.Cmd, error) {
	cmd := y.net.Command(i, program, args...)
	if y.Mutant != "" {
		cmd.Env = append(cmd.Env, mutation.Env+"="+y.Mutant)
	}
	f, err := os.OpenFile(filepath.Join(y.dir(i), log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	y.logs = append(y.logs, f)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.Dir = y.data(i) // CONFIG REWRITE forgets the directory of a server whose directory is gone
	return cmd, y.tie(cmd)
}

// tie starts a process that ends with this one, however that ends.
func (y *System) tie(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	done := make(chan error)
	y.starts <- func() { done <- cmd.Start() }
	return <-done
}

func (y *System) startServer(i int) (err error) {
	y.servers[i], err = y.start(i, "out", "redis-server", filepath.Join(y.dir(i), "redis.conf"))
	return err
}

func (y *System) startKeeper(i int) (err error) {
	if y.Sentinel {
		y.keepers[i], err = y.start(i, "sentinel.log", "redis-server", y.keeperConf(i), "--sentinel")
		return err
	}
	y.keepers[i], err = y.start(i, "elect.log", y.Elect, "recipe", "redis", "run", "--config", y.keeperConf(i))
	return err
}

// StartClients starts a client by go-redis on each node, and one by redis-py on the last one, and returns a second
// later.
func (y *System) StartClients() error {
	for i := range Nodes + 1 {
		node, name := min(i, Nodes-1), "go"+strconv.Itoa(i)
		args := []string{y.Worker, "write"}
		if i == Nodes {
			name, args = "py", []string{"/usr/bin/python3", filepath.Join(y.Dir, "writer.py")}
			if err := os.WriteFile(args[1], []byte(pythonWriter), 0o644); err != nil {
				return err
			}
		}
		args = append(args, name, y.sentinels(), "mymaster")
		cmd := y.net.Command(node, args[0], args[1:]...)
		out, err := os.Create(y.output(i))
		if err != nil {
			return err
		}
		y.logs = append(y.logs, out)
		cmd.Stdout, cmd.Stderr = out, out
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		if err := y.tie(cmd); err != nil {
			return err
		}
		y.writers, y.stdins = append(y.writers, cmd), append(y.stdins, in)
	}
	time.Sleep(time.Second) // in which they connect and write
	return nil
}

// listen has redis-cli write down all messages of elector i.
func (y *System) listen(i int) error {
	_, err := y.start(i, "events", "redis-cli", "-h", y.host(i), "-p", "26379", "psubscribe", "*")
	return err
}

// ask has redis-py ask the electors all that it can ask Sentinels.
func (y *System) ask() (string, error) {
	path := filepath.Join(y.Dir, "asker.py")
	if err := os.WriteFile(path, []byte(pythonAsker), 0o644); err != nil {
		return "", err
	}
	out, err := y.net.Command(0, "/usr/bin/python3", path, y.sentinels(), "mymaster", strconv.Itoa(Nodes)).CombinedOutput()
	return string(out), err
}

func (y *System) output(i int) string {
	return filepath.Join(y.Dir, "writes"+strconv.Itoa(i))
}

// StopClients ends the clients.
func (y *System) StopClients() {
	for i, w := range y.writers {
		_ = y.stdins[i].Close()
		_ = w.Wait()
	}
	y.writers, y.stdins = nil, nil
}

// Close ends all processes, and removes the network.
func (y *System) Close() {
	for _, w := range y.writers {
		_ = w.Process.Kill()
		_ = w.Wait()
	}
	for _, cmd := range append(y.keepers[:], y.servers[:]...) {
		end(cmd)
	}
	if y.net != nil {
		_ = y.net.Close()
	}
	for _, f := range y.logs {
		_ = f.Close()
	}
	close(y.starts)
}

// end kills a process, stopped or not, and waits for it.
func end(cmd *exec.Cmd) {
	if cmd != nil && cmd.Process != nil && cmd.ProcessState == nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// cli asks a port of a node, from within that node: faults of links do not matter.
func (y *System) cli(i int, port string, args ...string) (string, error) {
	cmd := y.net.Command(i, "timeout", append([]string{"20", "redis-cli", "-p", port}, args...)...)
	out, err := cmd.Output()
	return string(bytes.TrimSpace(out)), err
}

// Master is the node whose server is master, as most of the electors or Sentinels say; -1 if they do not agree.
func (y *System) Master() int {
	votes := map[string]int{}
	for i := range Nodes {
		out, err := y.cli(i, "26379", "sentinel", "get-master-addr-by-name", "mymaster")
		host, _, ok := strings.Cut(out, "\n")
		if err == nil && ok {
			votes[host]++
		}
	}
	for i := range Nodes {
		if votes[y.host(i)] > Nodes/2 {
			return i
		}
	}
	return -1
}

// Acting is the node of the elector that acts; of Sentinel, which has none before a failover, that of the master.
func (y *System) Acting() int {
	if y.Sentinel {
		return y.Master()
	}
	for i := range Nodes {
		out, err := y.cli(i, "26379", "sentinel", "elect-status")
		var s struct {
			Acting string `json:"acting"`
		}
		if err == nil && json.Unmarshal([]byte(out), &s) == nil && strings.HasPrefix(s.Acting, "e") {
			n, _ := strconv.Atoi(s.Acting[1:])
			return n
		}
	}
	return -1
}

// settled is why the system is not whole: one master, which all electors name, and replicas that have its data.
func (y *System) settled() error {
	m := y.Master()
	if m < 0 {
		return errors.New("the electors do not agree on a master")
	}
	want := []string{"role:master", "connected_slaves:" + strconv.Itoa(Nodes-1)}
	out, err := y.cli(m, "6379", "info", "replication")
	if err != nil {
		return err
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			return fmt.Errorf("the master of node %d has no %s", m, w)
		}
	}
	if strings.Count(out, "state=online") != Nodes-1 {
		return fmt.Errorf("not all replicas of node %d are online", m)
	}
	for i := range Nodes {
		// Sentinels learn of each other, and of replicas, in seconds.
		out, err := y.cli(i, "26379", "sentinel", "master", "mymaster")
		if known := strings.ReplaceAll(out, "\n", " "); err != nil || !strings.Contains(known, "num-other-sentinels 2 ") || !strings.Contains(known, "num-slaves 2 ") {
			return fmt.Errorf("node %d does not know all others: %w", i, err)
		}
		if i == m {
			continue
		}
		out, err = y.cli(i, "6379", "info", "replication")
		if err != nil || !strings.Contains(out, "master_link_status:up") || !strings.Contains(out, "master_host:"+y.host(m)) {
			return fmt.Errorf("node %d does not follow node %d: %w", i, m, err)
		}
	}
	return nil
}

// settle waits until the system is whole.
func (y *System) settle(limit time.Duration) error {
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = y.settled(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("not whole after %v: %w", limit, err)
}

// Count counts what a round has lost, on a system that is whole: of what was acknowledged before the last second.
func (y *System) Count(r *Round, l *Losses) error {
	clients, err := y.writes()
	if err != nil {
		return err
	}
	keys, err := y.Keys()
	if err != nil {
		return err
	}
	r.Lost = l.Round(clients, keys, r.Whole)
	return nil
}

// Keys are all keys of the master.
func (y *System) Keys() (map[string]bool, error) {
	m := y.Master()
	if m < 0 {
		return nil, errors.New("there is no master")
	}
	out, err := y.net.Command(m, y.Worker, "keys", y.server(m)).Output()
	if err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		keys[strings.TrimSpace(line)] = true
	}
	return keys, nil
}

// others are the nodes but one.
func others(node int) []int {
	return slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == node })
}
