//go:build linux

package zombie_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/test/fencing/zombie"
)

func TestMain(m *testing.M) {
	zombie.Main(m, map[string]zombie.Opener{
		"fenced":     opener(true, true),
		"asks-first": opener(false, true),
		"bare":       opener(false, false),
	})
}

// TestFenced: a server that checks and writes in one step refuses all stale writes.
func TestFenced(t *testing.T) {
	where, read := serve(t)
	r := zombie.Prove(t, zombie.Config{Opener: "fenced", Where: where, Read: read})
	if r.Waited > 0 {
		t.Errorf("the newer leader waited in %d plays; there is nothing to wait for", r.Waited)
	}
}

// TestUnfenced: the play catches a server that does not check, and a leader that reads the mark
// first and writes afterwards, which is no fencing.
func TestUnfenced(t *testing.T) {
	for _, name := range []string{"asks-first", "bare"} {
		t.Run(name, func(t *testing.T) {
			where, read := serve(t)
			zombie.Disprove(t, zombie.Config{Opener: name, Where: where, Read: read})
		})
	}
}

// client is a leader's end of a connection.
type client struct {
	conn          net.Conn
	in            *bufio.Reader
	fenced, check bool
}

func opener(fenced, check bool) zombie.Opener {
	return func(ctx context.Context, where string, steps *zombie.Steps) (zombie.Resource, error) {
		conn, err := steps.Dial(ctx, "tcp", where)
		if err != nil {
			return nil, err
		}
		return &client{conn: conn, in: bufio.NewReader(conn), fenced: fenced, check: check}, nil
	}
}

func (c *client) say(format string, args ...any) (int64, error) {
	if _, err := fmt.Fprintf(c.conn, format+"\n", args...); err != nil {
		return 0, err
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	word, number, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if word == "stale" {
		return 0, &fence.StaleError{Highest: fence.Token(n)}
	}
	return n, err
}

func (c *client) Claim(_ context.Context, token fence.Token) error {
	_, err := c.say("claim %d", token)
	return err
}

func (c *client) Read(context.Context) (int64, error) { return c.say("read") }

func (c *client) Write(_ context.Context, token fence.Token, value int64) error {
	if c.fenced {
		_, err := c.say("write %d %d", token, value)
		return err
	}
	if c.check {
		highest, err := c.say("mark")
		if err != nil {
			return err
		}
		if token < fence.Token(highest) {
			return &fence.StaleError{Shown: token, Highest: fence.Token(highest)}
		}
	}
	_, err := c.say("write %d %d", fence.MaxToken, value)
	return err
}

func (c *client) Close() error { return c.conn.Close() }

// serve is a register that any leader can reach.
func serve(t *testing.T) (where string, read func(context.Context) (int64, error)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var mark, value int64
	say := func(line string) string {
		mu.Lock()
		defer mu.Unlock()
		words := append(strings.Fields(line), "0", "0")
		token, _ := strconv.ParseInt(words[1], 10, 64)
		switch words[0] {
		case "mark":
			return fmt.Sprintln("is", mark)
		case "read":
			return fmt.Sprintln("is", value)
		}
		if token < mark {
			return fmt.Sprintln("stale", mark)
		}
		if token != int64(fence.MaxToken) {
			mark = token
		}
		if words[0] == "write" {
			value, _ = strconv.ParseInt(words[2], 10, 64)
		}
		return fmt.Sprintln("is", value)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					if _, err := conn.Write([]byte(say(in.Text()))); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return l.Addr().String(), func(context.Context) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		return value, nil
	}
}
