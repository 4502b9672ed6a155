package supervise_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/long"
)

// pour writes without end to three servers at a time: datagrams, requests of HTTP, and mails. Arguments: their
// addresses.
func pour(args []string) {
	again := func(write func() error) {
		for {
			if err := write(); err != nil {
				ts := unix.NsecToTimespec(100_000)
				_ = unix.Nanosleep(&ts, nil)
			}
		}
	}
	udp, err := net.Dial("udp", args[0])
	check(err)
	go again(func() error { _, err := udp.Write(make([]byte, 100)); return err })
	go again(func() error {
		r, err := http.NewRequest(http.MethodPut, "http://"+args[1]+"/", strings.NewReader(strings.Repeat("x", 5000)))
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	})
	smtp, err := net.Dial("tcp", args[2])
	check(err)
	answers := bufio.NewReader(smtp)
	again(func() error {
		for _, line := range []string{"MAIL FROM:<a@example.org>", "RCPT TO:<b@example.org>", "DATA", "Subject: x\r\n\r\nx\r\n."} {
			if _, err := fmt.Fprint(smtp, line+"\r\n"); err != nil {
				return err
			}
			if _, err := answers.ReadString('\n'); err != nil {
				return err
			}
		}
		return nil
	})
}

// inbox is a server that checks nothing, and knows when what it reads has arrived.
type inbox struct {
	addr string

	mu    sync.Mutex
	conns []syscall.RawConn
	bytes int64
	since int64 // bytes at the last drain
}

// attend reads a connection, and answers what there is with answer.
func (i *inbox) attend(c syscall.Conn, answer func(text string)) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	i.mu.Lock()
	i.conns = append(i.conns, raw)
	i.mu.Unlock()
	buf := make([]byte, 1<<16)
	for {
		n, failed := 0, error(nil)
		err := raw.Read(func(fd uintptr) bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			if n, failed = unix.Read(int(fd), buf); n > 0 { // counted before anybody else looks
				i.bytes += int64(n)
			}
			return failed != unix.EAGAIN
		})
		if err != nil || n <= 0 && failed != unix.EINTR {
			return
		}
		answer(string(buf[:max(n, 0)]))
	}
}

// drain reads all that has arrived, and reports whether there was something since the last time.
func (i *inbox) drain() (some bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	buf := make([]byte, 1<<16)
	for _, raw := range i.conns {
		_ = raw.Control(func(fd uintptr) { // it may be closed
			for {
				n, err := unix.Read(int(fd), buf)
				if n <= 0 && err != unix.EINTR {
					return
				}
				i.bytes += int64(max(n, 0))
			}
		})
	}
	some, i.since = i.bytes > i.since, i.bytes
	return some
}

// listenTo makes an inbox of the connections to a port.
func listenTo(t *testing.T, answer func(c net.Conn, text string)) *inbox {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &inbox{addr: l.Addr().String()}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				i.attend(c.(*net.TCPConn), func(text string) { answer(c, text) })
			}()
		}
	}()
	return i
}

// TestGuardFreezes: a writer is frozen at some point of its writes, its lease ends, and it goes on. Not a byte arrives
// after the end at servers for datagrams, HTTP and mail, by their own clock, which is that of the guard: what had
// arrived by then was read before the writer went on.
func TestGuardFreezes(t *testing.T) {
	times := long.FullOr(1000, 10)
	udp := &inbox{}
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	udp.addr = in.LocalAddr().String()
	go udp.attend(in, func(string) {})
	boxes := []*inbox{udp,
		listenTo(t, func(c net.Conn, text string) {
			if strings.HasSuffix(text, "x") { // the body, or a part of it: a client takes one answer for each request
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				_ = c.(*net.TCPConn).CloseWrite()
			}
		}),
		listenTo(t, func(c net.Conn, text string) { _, _ = io.WriteString(c, "250 taken\r\n") }),
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var before [3]int64
	for n := range times {
		g := newGuarded(t, nil)
		g.Until(forever)
		for _, i := range boxes {
			i.drain()
		}
		cmd := exec.Command(exe, boxes[0].addr, boxes[1].addr, boxes[2].addr)
		cmd.Env, cmd.Stderr, cmd.SysProcAttr = partEnv("pour"), os.Stderr, &syscall.SysProcAttr{}
		g.Enter(cmd.SysProcAttr)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, i := range boxes {
			eventually(t, "it writes", i.drain)
		}
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
		_ = cmd.Process.Signal(unix.SIGSTOP)
		eventually(t, "it is stopped", func() bool { return stopped(cmd.Process.Pid) })
		<-time.After(5 * time.Millisecond) // what has left is in no queue any more
		g.Until(clock.Now())
		for k, i := range boxes {
			i.drain()
			before[k] = i.since
		}
		_ = cmd.Process.Signal(unix.SIGCONT)
		patience := 10 * time.Millisecond
		if n%20 == 0 {
			patience = 500 * time.Millisecond // the kernel sends again
		}
		<-time.After(patience)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		g.Remove()
		for k, i := range boxes {
			if i.drain() {
				t.Errorf("freeze %d: %d bytes have arrived after the end at server %d", n, i.since-before[k], k)
			}
		}
	}
	t.Logf("%d freezes; %d, %d and %d bytes arrived before the end of a lease, and none after it", times, before[0], before[1], before[2])
}
