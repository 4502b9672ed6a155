//go:build linux

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/dial"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/test/chaos/network"
)

// Operator runs the elect command from outside, unaffected by faults, and returns its stdout. The
// election and its name are in its environment, so args are such as "transfer", "--to", "n2". The
// error has its stderr, and wraps an [exec.ExitError] when the exit code is not 0; the output is
// valid then, too. When ctx ends it is killed.
func (c *Cluster) Operator(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.Command(c.cfg.Programs.Elect, args...)
	if c.cfg.Network != nil {
		cmd = c.cfg.Network.Command(network.Operator, c.cfg.Programs.Elect, args...)
	}
	var out, trouble bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &trouble
	b, err := c.startAuxiliary("operator", cmd, c.place())
	if err != nil {
		return nil, err
	}
	defer c.forget(b)
	select {
	case <-b.done:
	case <-ctx.Done():
		_ = b.signal(unix.SIGKILL)
		<-b.done
		return out.Bytes(), fmt.Errorf("cluster: elect %s: %w: %s", strings.Join(args, " "), context.Cause(ctx), bytes.TrimSpace(trouble.Bytes()))
	}
	if state := cmd.ProcessState; !state.Success() {
		return out.Bytes(), fmt.Errorf("cluster: elect %s: %w: %s", strings.Join(args, " "), &exec.ExitError{ProcessState: state}, bytes.TrimSpace(trouble.Bytes()))
	}
	return out.Bytes(), nil
}

// place is the election as the operator sees it, as environment variables.
func (c *Cluster) place() []string {
	return []string{"ELECT_ELECTION=" + c.URL(network.Operator), "ELECT_NAME=" + c.cfg.Name}
}

// Members is the state of an election as its nodes report it.
type Members struct {
	Leader     int                    // the leader with the greatest reported token; -1: none
	Token      int64                  // its token
	Membership *peer.MembershipStatus // the newest; nil if none is known
	Nodes      []*peer.NodeStatus     // by node; nil: no answer
	Errs       []error                // by node: why there is no answer
}

// Members asks all nodes at once, unaffected by faults. It waits for nodes that do not answer until
// ctx ends, at most 3 s. If five nodes answer it takes 10 ms: it starts no process.
func (c *Cluster) Members(ctx context.Context) (*Members, error) {
	if c.client == nil {
		return nil, errors.New("cluster: candidates of a file election are no nodes that could be asked")
	}
	results := c.client.Statuses(c.Outside(ctx))
	m := &Members{Leader: -1, Membership: peer.Newest(results), Nodes: make([]*peer.NodeStatus, c.cfg.Size), Errs: make([]error, c.cfg.Size)}
	for _, r := range results {
		i := c.Index(string(r.Peer.ID))
		if i < 0 {
			continue
		}
		m.Nodes[i], m.Errs[i] = r.Status, r.Err
		if s := r.Status; s != nil && s.Leader != nil && !s.Stale && int64(s.Leader.Token) > m.Token {
			m.Leader, m.Token = c.Index(s.Leader.ID), int64(s.Leader.Token)
		}
	}
	return m, nil
}

// Client asks the nodes of the election from within this process, unaffected by faults if the
// context is one of Outside. It is nil in a file election. Close closes it.
func (c *Cluster) Client() *peer.Client { return c.client }

// Outside returns a context in which Client connects through the operator's network.
func (c *Cluster) Outside(ctx context.Context) context.Context { return dial.By(ctx, c.outside.dial) }

// prepareOperator makes certificates and a client.
func (c *Cluster) prepareOperator() (err error) {
	if err := c.certify(); err != nil {
		return err
	}
	if c.outside, err = newOutside(c.cfg.Network); err != nil {
		return fmt.Errorf("the operator's network: %w", err)
	}
	u, err := elect.ParseURL(c.URL(network.Operator))
	if err != nil {
		return errors.Join(err, c.outside.close())
	}
	voters, cfg, err := peer.ParseURL(u)
	if err != nil {
		return errors.Join(err, c.outside.close())
	}
	if c.client, err = peer.NewClient(voters, c.cfg.Name, cfg); err != nil {
		return errors.Join(err, c.outside.close())
	}
	return nil
}

// outside is the network of the operator, for connections of this process.
type outside struct {
	there, here *os.File // network namespaces; nil: they are the same
}

// newOutside finds the network of the operator's programs.
func newOutside(n network.Network) (*outside, error) {
	cmd := n.Command(network.Operator, "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait() // how cat ends does not matter
	}()
	// When it echoes, it runs.
	if _, err := in.Write([]byte{'\n'}); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return nil, err
	}
	there, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	here, err := os.Open("/proc/thread-self/ns/net") // the main thread may have been left in another namespace
	if err != nil {
		return nil, errors.Join(err, there.Close())
	}
	o := &outside{there, here}
	a, err1 := there.Stat()
	b, err2 := here.Stat()
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.Join(err, o.close())
	}
	if os.SameFile(a, b) {
		err := o.close()
		return &outside{}, err
	}
	return o, nil
}

// dial connects through the operator's network. A socket belongs to the network of the thread that
// makes it, so a thread enters that network for a moment.
func (o *outside) dial(ctx context.Context, addr string) (net.Conn, error) {
	if o.there == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // not unlocked if the return fails: then the thread ends here
		if err := unix.Setns(int(o.there.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{nil, fmt.Errorf("the operator's network: %w", err)}
			runtime.UnlockOSThread()
			return
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if unix.Setns(int(o.here.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

func (o *outside) close() error {
	if o.there == nil {
		return nil
	}
	return errors.Join(o.there.Close(), o.here.Close())
}

// with is a URL with some parameters set.
func with(at string, pairs ...string) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	q := u.Query()
	for pair := range slices.Chunk(pairs, 2) {
		q.Set(pair[0], pair[1])
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
