package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/localpeers"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/peer"
)

// zombieLimit is how long one attempt may take.
const zombieLimit = 20 * time.Second

// The servers, by their index.
const (
	bareStore    = iota
	guardedStore // it checks tokens
	linesStore   // it checks nothing; its writers are under the network guard
	storeCount
)

// participants are those of the story: two clients and two servers, each a process, and a third voter in this
// process.
type participants struct {
	cluster *cluster.Cluster
	local   *localpeers.Peers
	third   *elect.Election
	clients []*client
	stores  [storeCount]string // their URLs
	reads   sync.WaitGroup
}

// command is an order to a client.
type command struct {
	Do   string `json:"do"` // stand, resign; or work, and write after the check
	Pays int    `json:"pays,omitempty"`
}

// answer is a client's answer. The times are of stamp.Now.
type answer struct {
	At      time.Duration `json:"at"`
	Token   fence.Token   `json:"token"`
	Balance int           `json:"balance"` // that it has read
	ReadAt  time.Duration `json:"read_at"` // when it has read it
	Left    time.Duration `json:"left"`    // the rest of the lease at the check
	Lost    string        `json:"lost"`    // why its term is over; empty: it leads
	Refused string        `json:"refused"` // by the server that checks
	Highest fence.Token   `json:"highest"` // in the refusal
	Failed  string        `json:"failed"`  // any other error

	// Of a writer. Its Refused is why the server has not answered.
	PID    int    `json:"pid"`
	Keeper int    `json:"keeper"` // the process id of its keeper
	Addr   string `json:"addr"`   // its end of the connection
}

// client is one of the two, or a writer, as seen from this process.
type client struct {
	*cluster.Candidate // nil for a writer
	in                 io.WriteCloser
	answers            chan answer // closed at its end
	quit               chan struct{}

	writer *client // of a client; nil if the machine has no network guard
	is     answer  // of a writer: the first one
}

// startParticipants starts all processes. The URL of the election has the times of the story: a voter's promise is a
// tenth longer than the lease that a leader proves from it. Without a network guard there is no server that speaks
// lines.
func startParticipants(ctx context.Context, cfg Config, dir string, guarded bool) (c *participants, err error) {
	c = new(participants)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if c.local, err = localpeers.New(localpeers.Config{Dir: dir, Profile: "fast", Voters: size, Cluster: "elect-demo"}); err != nil {
		return nil, err
	}
	c.cluster = &cluster.Cluster{Program: cfg.Program, Dir: dir}
	for i := range c.stores {
		if i == linesStore && !guarded {
			continue
		}
		if c.stores[i], err = c.startStore(ctx, cfg, storeDir(dir, i), i); err != nil {
			return nil, err
		}
	}
	at := func(id string) string {
		return c.local.URL(id) + "&" + url.Values{"promise": {(zombieLease*10/9 + time.Millisecond).String()}, "heartbeat": {"30ms"}}.Encode()
	}
	for _, id := range ids[:2] {
		one, err := c.startClient(cfg, id, at(id))
		if err != nil {
			return nil, err
		}
		c.clients = append(c.clients, one)
	}
	c.third, err = elect.Openers{"peer": peer.Open}.Open(ctx, at(ids[2]), election, elect.Config{ID: ids[2]})
	return c, err
}

func storeDir(dir string, i int) string { return filepath.Join(dir, fmt.Sprint("store", i)) }

// startStore starts a server and returns its URL.
func (c *participants) startStore(ctx context.Context, cfg Config, dir string, kind int) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(accountFile(dir), fmt.Appendln(nil, opening), 0o600); err != nil {
		return "", err
	}
	args := []string{cfg.StoreVerb, dir}
	switch kind {
	case linesStore:
		args = append(args, "lines")
	case guardedStore:
		args = append(args, "checks")
		if err := os.WriteFile(secretFile(dir), []byte(rand.Text()), 0o600); err != nil {
			return "", err
		}
	}
	p, said, err := c.cluster.SpawnRead("a server", exec.Command(cfg.Program, args...))
	if err != nil {
		return "", err
	}
	lines := make(chan string)
	c.reads.Go(func() {
		defer said.Close()
		in := bufio.NewScanner(said)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
			}
		}
		close(lines)
	})
	select {
	case line, ok := <-lines:
		if !ok {
			return "", fmt.Errorf("a server has not begun: %s", strings.Join(p.Lines(3), "; "))
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (c *participants) startClient(cfg Config, id, at string) (*client, error) {
	cmd := exec.Command(cfg.Program, cfg.ClientVerb, at, id, c.stores[bareStore], c.stores[guardedStore], secretFile(storeDir(c.cluster.Dir, guardedStore)))
	one := &client{answers: make(chan answer), quit: make(chan struct{})}
	if addr := c.stores[linesStore]; addr != "" {
		cmd.Args = append(cmd.Args, addr)
		w, theirs, err := c.connectWriter(cmd)
		if err != nil {
			return nil, err
		}
		for _, f := range theirs {
			defer f.Close()
		}
		one.writer = w
	}
	var said *os.File
	var err error
	if one.in, err = cmd.StdinPipe(); err == nil {
		one.Candidate, said, err = c.cluster.SpawnRead(id, cmd)
	}
	if err != nil {
		if one.writer != nil {
			one.writer.close()
		}
		return nil, err
	}
	c.reads.Go(func() { one.read(said) })
	return one, nil
}

// read reads the answers until their end, or until quit is closed.
func (c *client) read(said *os.File) {
	defer close(c.answers)
	defer said.Close()
	for in := json.NewDecoder(bufio.NewReader(said)); ; {
		var a answer
		if err := in.Decode(&a); err != nil {
			return
		}
		select {
		case c.answers <- a:
		case <-c.quit:
			return
		}
	}
}

// close lets the process go on if it was stopped, and ends it.
func (c *client) close() {
	if c.writer != nil {
		c.writer.close()
	}
	if c.Candidate != nil {
		_ = c.Signal(resume) // it may have ended, here and below
	} else {
		_, _ = signalTo(c.is.Keeper, resume), signalTo(c.is.PID, resume)
	}
	_ = c.in.Close()
	close(c.quit)
}

// signalTo sends a signal to a process that is not a child; 0 is none.
func signalTo(pid int, sig syscall.Signal) error {
	if pid == 0 {
		return nil
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

// elect has a client elected, and lets it resign if it is one of the earlier leaders. The token shows whether that is
// the intended election.
func (c *participants) elect(ctx context.Context, one *client, token fence.Token, resign bool) error {
	if err := one.ask(command{Do: "stand"}); err != nil {
		return err
	}
	a, err := one.next(ctx)
	switch {
	case err != nil:
		return err
	case a.Token != token:
		return fmt.Errorf("%w: token %v instead of %v", errAgain, a.Token, token)
	case !resign:
		return nil
	}
	if err := one.ask(command{Do: "resign"}); err != nil {
		return err
	}
	_, err = one.next(ctx)
	return err
}

func (c *client) ask(what command) error { return json.NewEncoder(c.in).Encode(what) }

// work has a client claim, read, and check: then it is about to write.
func (c *client) work(ctx context.Context, pays int) (answer, error) {
	if err := c.ask(command{Do: "work", Pays: pays}); err != nil {
		return answer{}, err
	}
	return c.next(ctx)
}

func (c *client) next(ctx context.Context) (answer, error) {
	select {
	case a, ok := <-c.answers:
		switch {
		case !ok && c.Candidate == nil:
			return a, fmt.Errorf("%w: a writer has ended", errAgain)
		case !ok:
			return a, fmt.Errorf("%s has ended: %s", c.ID, strings.Join(c.Lines(3), "; "))
		case a.Failed != "":
			return a, fmt.Errorf("%s: %s", c.ID, a.Failed)
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
}

// meetWriter reads the first answer of the client's writer, if it has one.
func (c *client) meetWriter(ctx context.Context) (err error) {
	if c.writer != nil {
		c.writer.is, err = c.writer.inTime(ctx)
	}
	return err
}

// write has a writer write an amount.
func (c *client) write(ctx context.Context, amount int) (answer, error) {
	if err := c.ask(command{Do: "write", Pays: amount}); err != nil {
		return answer{}, fmt.Errorf("%w: a writer has ended: %w", errAgain, err)
	}
	return c.inTime(ctx)
}

// inTime is next of a writer, which its keeper may have killed: then its client holds its output open.
func (c *client) inTime(ctx context.Context) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, zombieLimit/4, fmt.Errorf("%w: a writer says nothing", errAgain))
	defer cancel()
	return c.next(ctx)
}

// freeze stops the client, its writer's keeper and its writer, in this order: a keeper that is stopped is continued by
// its parent.
func (c *client) freeze(ctx context.Context) error {
	if err := c.meetWriter(ctx); err != nil {
		return err
	}
	if err := c.stop(ctx); err != nil || c.writer == nil {
		return err
	}
	for _, pid := range []int{c.writer.is.Keeper, c.writer.is.PID} {
		if err := signalTo(pid, freeze); err != nil {
			return fmt.Errorf("%w: the writer of client 1 was killed: %w", errAgain, err)
		}
	}
	return nil
}

// stop stops the process, and returns when it has stopped.
func (c *client) stop(ctx context.Context) error {
	if err := c.Signal(freeze); err != nil {
		return err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		if still, err := stopped(c.PID); still || err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-c.Done():
			return fmt.Errorf("%s has ended: %s", c.ID, strings.Join(c.Lines(3), "; "))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// balance asks a server directly.
func (c *participants) balance(ctx context.Context, store string) (int, error) {
	return readAccount(ctx, http.DefaultClient, store)
}

// close ends all processes.
func (c *participants) close() error {
	for _, one := range c.clients {
		one.close()
	}
	if c.cluster != nil {
		c.cluster.Close()
	}
	c.reads.Wait()
	var err error
	if c.third != nil {
		err = c.third.Close()
	}
	if c.local != nil {
		err = errors.Join(err, c.local.Close())
	}
	return err
}
