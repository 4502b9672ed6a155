//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/test/chaos/network"
)

// Auxiliary is a process of a cluster outside of its nodes, such as a watcher.
type Auxiliary struct {
	cluster *Cluster
	name    string
	log     string
	*started
}

// StartAuxiliary starts a program beside the nodes, in the operator's place of the network. Its name
// identifies it; its output goes to Dir/log/NAME.log. Its environment has the election, as the
// operator sees it, and env. It is not restarted, and Close ends it.
func (c *Cluster) StartAuxiliary(name string, env []string, program string, args ...string) (*Auxiliary, error) {
	cmd := exec.Command(program, args...)
	if c.cfg.Network != nil {
		cmd = c.cfg.Network.Command(network.Operator, program, args...)
	}
	return c.startAuxiliary(name, cmd, slices.Concat(c.place(), env))
}

func (c *Cluster) startAuxiliary(name string, cmd *exec.Cmd, env []string) (*Auxiliary, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return nil, errClosed
	}
	b := &Auxiliary{cluster: c, name: name, log: c.logPath(name)}
	var err error
	if b.started, err = c.launch(cmd, b.log, slices.Concat([]string{auxiliaryEnv + "=" + name}, env)...); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", name, err)
	}
	c.auxiliaries = append(c.auxiliaries, b)
	return b, nil
}

// Done is closed when the process has ended.
func (b *Auxiliary) Done() <-chan struct{} { return b.done }

// Wait waits until the process has ended, and returns how, with its last line of output.
func (b *Auxiliary) Wait(ctx context.Context) (string, error) {
	select {
	case <-b.done:
	case <-ctx.Done():
		return "", fmt.Errorf("cluster: %s has not ended: %w; it said last: %s", b.name, context.Cause(ctx), lastLine(b.log))
	}
	return b.how() + ": " + lastLine(b.log), nil
}

// End ends the process, and returns when nothing is left of it and of its descendants. What has not
// ended 15 s after SIGTERM is killed, which is an error.
func (b *Auxiliary) End() error {
	wait := b.cluster.patience
	_ = b.signal(syscall.SIGCONT)
	err := b.signal(syscall.SIGTERM)
	select {
	case <-b.done:
	case <-time.After(wait):
		err = errors.Join(err, fmt.Errorf("cluster: %s did not end within %v of SIGTERM", b.name, wait), b.signal(syscall.SIGKILL))
		<-b.done
		wait = 0
	}
	if left := b.cluster.vanish(func(p *process) bool { return p.auxiliary == b.name }, wait); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("cluster: left of %s, and killed: %s", b.name, strings.Join(left, "; ")))
	}
	b.cluster.forget(b)
	return err
}

func (c *Cluster) forget(b *Auxiliary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.auxiliaries = slices.DeleteFunc(slices.Clone(c.auxiliaries), func(o *Auxiliary) bool { return o == b })
}

// Twin is a second process with the id of a node. The others must refuse it, and it must not
// disturb the first.
type Twin struct{ *Auxiliary }

// Twin starts a second process of node i, of its kind: with the same data directory, which the
// first one holds, or elsewhere, with an empty directory and at a port of its own, as if its
// computer had been set up twice. If it leads it stamps the ledger as any node.
func (c *Cluster) Twin(i int, elsewhere bool) (*Twin, error) {
	if c.cfg.Election == File {
		return nil, errors.New("cluster: in a file election ids are not bound to a node, so there are no twins")
	}
	c.mu.Lock()
	c.twins++
	name := fmt.Sprintf("%s-twin%d", c.ID(i), c.twins)
	c.mu.Unlock()
	at := c.URL(i)
	if elsewhere {
		data := filepath.Join(c.cfg.Dir, "data", name)
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, err
		}
		addr, err := freePort(c.cfg.Network.Listen(i))
		if err != nil {
			return nil, fmt.Errorf("cluster: %s: %w", name, err)
		}
		if at, err = with(at, "data", data, "listen", addr); err != nil {
			return nil, err
		}
	}
	cmd := c.command(i, c.cfg.Programs, at)
	b, err := c.startAuxiliary(name, cmd, []string{nodeEnv + "=" + strconv.Itoa(i)})
	if err != nil {
		return nil, err
	}
	return &Twin{b}, nil
}

// refusal is what a node says when others refuse it.
const refusal = "this node is refused"

// Refused waits until the twin is refused, and returns the message. In the same directory the twin
// then ends, after 5 s. Elsewhere it stands by as long as the first process is connected with the
// others, and ends when they find that it has another directory. It is an error if the twin was
// killed, or ended with success, or is not refused when ctx ends.
func (t *Twin) Refused(ctx context.Context) (string, error) {
	looks := time.NewTicker(glance)
	defer looks.Stop()
	for {
		select {
		case <-t.done:
			words := t.how() + ": " + lastLine(t.log)
			if t.cmd.ProcessState.ExitCode() <= 0 {
				return words, fmt.Errorf("cluster: %s was not refused: %s", t.name, words)
			}
			return words, nil
		case <-looks.C:
			text, err := os.ReadFile(t.log)
			if err != nil {
				return "", err
			}
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, refusal) {
					return strings.TrimSpace(line), nil
				}
			}
		case <-ctx.Done():
			return "", fmt.Errorf("cluster: %s is not refused: %w; it said last: %s", t.name, context.Cause(ctx), lastLine(t.log))
		}
	}
}

// freePort is another port of the host of addr. If the host is this computer, nothing listens on it
// at the moment; elsewhere it is a port that the node's own computer does not use. It is below the
// kernel's ports for outgoing connections.
func freePort(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	own, err := strconv.Atoi(port)
	if err != nil {
		return "", err
	}
	for other := own + 1; other < own+10_000; other++ {
		at := net.JoinHostPort(host, strconv.Itoa(10_000+other%20_000))
		l, err := net.Listen("tcp", at)
		if err == nil {
			return at, l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return at, nil // that address is in another network
		}
	}
	return "", fmt.Errorf("no port of %s is free", host)
}

// lastLine is the last line of a file that is not empty, without control characters.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
