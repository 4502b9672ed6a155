package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/driver"
)

// writerPatience is how long a writer waits for the server's answer. The kernel sends a packet of TCP that was dropped
// again after 200 ms.
const writerPatience = 300 * time.Millisecond

// guardedWriters returns the containment of a client's writer, with a network guard. An error says why this machine
// has none.
func guardedWriters(ctx context.Context) (*supervise.Containment, error) {
	c, err := supervise.Contain(ctx, supervise.Auto, "demo-zombie", nil)
	if err != nil {
		return nil, err
	}
	return c, c.GuardNetwork()
}

// Writer is the process that writes for a client to the server at addr, which speaks lines over TCP. It carries out the
// orders from in, and answers on out. The first answer has its ids and its address. It ends with in.
func Writer(addr string, in io.Reader, out io.Writer) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := json.NewEncoder(out)
	if err := answers.Encode(answer{PID: os.Getpid(), Keeper: os.Getppid(), Addr: conn.LocalAddr().String()}); err != nil {
		return err
	}
	for commands, there := json.NewDecoder(bufio.NewReader(in)), bufio.NewReader(conn); ; {
		var what command
		if err := commands.Decode(&what); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a := answer{}
		_, err := fmt.Fprintln(conn, what.Pays)
		if err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(writerPatience))
			_, err = there.ReadString('\n')
		}
		if err != nil {
			a.Refused = err.Error()
		}
		a.At = stamp.Now()
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// Lines is the process of the server that checks nothing and speaks lines over TCP: it keeps the account in a file of
// dir, writes down what arrives from whom and when, and writes its address to out. It serves until it is killed.
func Lines(dir string, out io.Writer) error {
	arrivals, err := os.OpenFile(arrivalsFile(dir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer arrivals.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go serveLines(conn, dir, arrivals)
	}
}

func serveLines(conn net.Conn, dir string, arrivals io.Writer) {
	defer conn.Close()
	buf := make([]byte, 100)
	var text []byte
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintln(arrivals, conn.RemoteAddr(), int64(stamp.Now()), n); err != nil {
			return
		}
		text = append(text, buf[:n]...)
		for {
			line, rest, ok := bytes.Cut(text, []byte("\n"))
			if !ok {
				break
			}
			if os.WriteFile(accountFile(dir), append(line, '\n'), 0o600) != nil {
				return
			}
			_, _ = fmt.Fprintln(conn, "taken") // its reader may be gone
			text = rest
		}
	}
}

// arrivalsFile has a line for each read of the server that speaks lines: the sender's address, the time and the number
// of bytes.
func arrivalsFile(dir string) string { return filepath.Join(dir, "arrivals") }

// arrived returns how many bytes have arrived from an address since then, by the clock of the server that speaks lines.
func arrived(dir, from string, since time.Duration) (bytes int, err error) {
	text, err := os.ReadFile(arrivalsFile(dir))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var (
			addr string
			at   int64
			n    int
		)
		if _, err := fmt.Sscan(line, &addr, &at, &n); err != nil {
			return 0, fmt.Errorf("%s: %q: %w", arrivalsFile(dir), line, err)
		}
		if addr == from && time.Duration(at) >= since {
			bytes += n
		}
	}
	return bytes, nil
}

// The descriptors of a client that its writer gets as standard input and output, so that this process speaks with the
// writer itself: a client that is stopped cannot.
const writerIn, writerOut = 3, 4

// connectWriter makes the pipes to the writer that a client will start. The caller closes theirs when the client was
// started.
func (c *participants) connectWriter(cmd *exec.Cmd) (w *client, theirs []*os.File, err error) {
	in, mine, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	said, out, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close(), mine.Close())
	}
	w = &client{in: mine, answers: make(chan answer), quit: make(chan struct{})}
	c.reads.Go(func() { w.read(said) })
	cmd.ExtraFiles = []*os.File{in, out}
	return w, cmd.ExtraFiles, nil
}

// writers starts the writers of one client, each under its keeper and the network guard. It is the client's
// elect.Guardian, for the mandate of its term.
type writers struct {
	command []string // the command line of a writer
	mandate driver.Guarded
	family  *supervise.Family
}

func (w *writers) Lead(m driver.Guarded) (done func(), err error) {
	w.mandate = m
	return func() {}, nil
}

func (w *writers) InTime() bool { return w.family == nil || w.family.InTime() }

// start starts a writer for the present term.
func (w *writers) start(ctx context.Context) error {
	contain, err := guardedWriters(ctx)
	if err != nil {
		return err
	}
	c := supervise.Command{
		Path: w.command[0], Args: w.command, Env: os.Environ(), Containment: contain,
		Stdin: os.NewFile(writerIn, "orders"), Stdout: os.NewFile(writerOut, "answers"), Stderr: os.Stderr,
	}
	c.Under(w.mandate)
	w.family, err = supervise.Start(ctx, c)
	return err
}

// close ends the writer.
func (w *writers) close() {
	if w.family != nil {
		w.family.Kill()
		w.family.Wait()
	}
}
