package supervise_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/internal/clock"
)

// The steps of a write. A writer may be held before each.
var (
	requestSteps = []string{"connect", "head", "body", "rest of the body", "answer"}
	mailSteps    = []string{"MAIL FROM:<a@example.org>", "RCPT TO:<b@example.org>", "DATA", "x", "."}
	sqlSteps     = []string{"BEGIN", "UPDATE written SET n = n + 1 WHERE id = ", "COMMIT"}
)

// pour writes without end to all servers at the same time: datagrams, requests of HTTP, mails and, if there is a
// PostgreSQL, transactions. Argument: board. A file beside it has the addresses, and the row of PostgreSQL. Place 0 has
// pour's pid, and tells when a datagram was refused. The next places are those of the other writers: PID is the step,
// from 1, at which the test wants to hold the writer, and Alive the step at which it is held.
func pour(args []string) {
	path := parseArgs(args)["board"]
	b, err := openBoard(path)
	check(err)
	text, err := os.ReadFile(path + ".servers")
	check(err)
	addr := strings.Fields(string(text))
	b.Members[0].PID.Store(int64(os.Getpid()))
	nap := func() { // others use this machine, too
		ts := unix.NsecToTimespec(1_000_000)
		_ = unix.Nanosleep(&ts, nil)
	}
	step := func(p *place, n int) {
		for ; p.PID.Load() == int64(n+1); nap() {
			p.Alive.Store(int64(n + 1))
		}
		p.Alive.Store(0)
	}
	go func() {
		udp, err := net.Dial("udp", addr[0])
		check(err)
		for n := uint32(0); ; n++ {
			if _, err := udp.Write(binary.LittleEndian.AppendUint32(make([]byte, 0, 100), n)[:100]); err != nil {
				b.Members[0].Alive.Store(int64(clock.Now()))
				nap()
			} else if n%16 == 0 {
				nap()
			}
		}
	}()
	const soon = 200 * time.Millisecond // the kernel tries to connect only once a second
	patient := soon
	request := func(p *place) error {
		step(p, 0)
		c, err := net.DialTimeout("tcp", addr[1], patient)
		if err != nil {
			patient *= 2 // this process may have almost no processor
			return err
		}
		patient = soon
		defer c.Close()
		for n, text := range []string{"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", strings.Repeat("-", 2500), strings.Repeat("x", 2500)} {
			step(p, n+1)
			if _, err := io.WriteString(c, text); err != nil {
				return err
			}
		}
		step(p, 4)
		_, err = io.Copy(io.Discard, c)
		return err
	}
	go func() {
		for ; ; nap() {
			_ = request(&b.Members[1])
		}
	}()
	if len(addr) > 3 {
		go func() {
			s, err := openSession(addr[3])
			check(err)
			for ; ; nap() {
				for n, text := range sqlSteps {
					step(&b.Members[3], n)
					_, err := s.query(strings.Replace(text, "id = ", "id = "+addr[4], 1))
					check(err)
				}
			}
		}()
	}
	mail, err := net.Dial("tcp", addr[2])
	check(err)
	answers := bufio.NewReader(mail)
	for ; ; nap() {
		for n, line := range mailSteps { // for each line one answer
			step(&b.Members[2], n)
			if _, err := fmt.Fprint(mail, line+"\r\n"); err == nil {
				_, _ = answers.ReadString('\n')
			}
		}
	}
}

// inbox is a server that checks nothing, and knows when what it reads has arrived: the kernel notes it.
type inbox struct {
	name, addr string
	steps      int          // of a write, before which its writer can be held
	committed  func() int64 // transactions, if it is a database

	mu      sync.Mutex
	conns   []inlet
	bytes   int64
	commits int64 // that were asked for
	last    int64 // the latest arrival, on CLOCK_REALTIME
	noted   bool  // the kernel has noted one

	seen     *observer       // of datagrams, next to the guard; or nil
	behind   time.Duration   // how long they may take from the guard to the observer
	lastSeen clock.Boot      // the latest that has arrived
	took     []time.Duration // of each, from there to here
	offset   int64           // from clock.Boot to CLOCK_REALTIME
}

// inlet is a connection, and what its server does with what arrives.
type inlet struct {
	syscall.RawConn
	io.Closer
	answer func(text string)
}

// observe has datagrams compared with when an observer saw them.
func (i *inbox) observe(seen *observer, behind time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen, i.offset, i.behind = seen, realtime(0), behind
}

// attend reads a connection, and answers what there is with answer.
func (i *inbox) attend(c interface {
	syscall.Conn
	io.Closer
}, answer func(text string)) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	if err != nil {
		panic(err)
	}
	i.mu.Lock()
	i.conns = append(i.conns, inlet{raw, c, answer})
	i.mu.Unlock()
	buf := make([]byte, 1<<16)
	for n := 1; n > 0; answer(string(buf[:max(n, 0)])) {
		err := raw.Read(func(fd uintptr) bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			n, err = i.read(int(fd), buf)
			return err != unix.EAGAIN
		})
		if err != nil {
			return
		}
	}
}

// read reads once, and notes it before anybody else looks.
func (i *inbox) read(fd int, buf []byte) (int, error) {
	for {
		var control [64]byte
		n, size, _, _, err := unix.Recvmsg(fd, buf, control[:], unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		if n > 0 {
			at := time.Now().UnixNano()
			if i.noted = i.noted || size > 0; size >= unix.CmsgSpace(16) { // a header of 16 bytes, seconds, nanoseconds
				at = int64(binary.NativeEndian.Uint64(control[16:]))*1e9 + int64(binary.NativeEndian.Uint64(control[24:]))
			}
			i.bytes += int64(n)
			i.commits += int64(bytes.Count(buf[:n], []byte("COMMIT\x00")))
			i.last = max(i.last, at)
			seen := int64(0)
			if i.seen != nil {
				seen = i.seen.at(buf)
			}
			if seen != 0 { // it was sent after the observer began
				i.lastSeen = max(i.lastSeen, clock.Boot(seen))
				i.took = append(i.took, time.Duration(at-i.offset-seen))
			}
		}
		return n, err
	}
}

// drain reads and answers all that has arrived. It returns how many bytes and commits have arrived so far, and when the
// latest did.
func (i *inbox) drain() (bytes, commits, last int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	buf := make([]byte, 1<<16)
	for _, c := range i.conns {
		_ = c.Control(func(fd uintptr) { // it may be closed
			for {
				n, _ := i.read(int(fd), buf)
				if n <= 0 {
					return
				}
				c.answer(string(buf[:n]))
			}
		})
	}
	return i.bytes, i.commits, i.last
}

// listenTo makes an inbox of the connections to a port. serve returns the function that answers what is written to one.
func listenTo(t *testing.T, name string, steps int, serve func(c net.Conn) (answer func(text string))) *inbox {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &inbox{name: name, addr: l.Addr().String(), steps: steps}
	t.Cleanup(func() {
		l.Close()
		i.mu.Lock()
		conns := i.conns
		i.mu.Unlock()
		for _, c := range conns { // the end of those that the guard has cut does not arrive
			c.Close()
		}
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer := serve(c)
				defer answer("") // the end
				i.attend(c.(*net.TCPConn), answer)
			}()
		}
	}()
	return i
}

// inboxes are servers for datagrams, HTTP, mail and, if there is a PostgreSQL, transactions.
func inboxes(t *testing.T) (list []*inbox, addrs string) {
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	udp := &inbox{name: "UDP", addr: in.LocalAddr().String()}
	go udp.attend(in, func(string) {})
	list = []*inbox{udp,
		listenTo(t, "HTTP", len(requestSteps), func(c net.Conn) func(string) {
			return func(text string) {
				if strings.HasSuffix(text, "x") { // the end of the body, or a part of it: a client takes one answer for each request
					_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
					_ = c.(*net.TCPConn).CloseWrite()
				}
			}
		}),
		listenTo(t, "mail", len(mailSteps), func(c net.Conn) func(string) {
			return func(text string) {
				_, _ = io.WriteString(c, strings.Repeat("250 taken\r\n", strings.Count(text, "\n")))
			}
		}),
	}
	addrs = list[0].addr + " " + list[1].addr + " " + list[2].addr
	if at := os.Getenv("SUPERVISE_POSTGRES"); at != "" {
		sql, row := database(t, at)
		list, addrs = append(list, sql), fmt.Sprint(addrs, " ", sql.addr, " ", row)
	}
	return list, addrs
}

// realtime converts an instant to CLOCK_REALTIME. Where the clocks were read some time apart, it is too late by that.
func realtime(at clock.Boot) int64 {
	best, offset := time.Duration(1<<62), int64(0)
	for range 5 {
		before := clock.Now()
		now := time.Now().UnixNano()
		if took := clock.Now().Sub(before); took < best {
			best, offset = took, now-int64(before)
		}
	}
	return int64(at) + offset
}

// servers makes inboxes, and a board for a writer to them.
func servers(t *testing.T) (path string, b *board, boxes []*inbox) {
	t.Helper()
	path, b = newBoard(t)
	boxes, addrs := inboxes(t)
	if err := os.WriteFile(path+".servers", []byte(addrs), 0o666); err != nil {
		t.Fatal(err)
	}
	return path, b, boxes
}

// awaitAll waits until all servers have read something more and the kernel notes arrivals, which it begins to do some
// time after a socket asks for it, or until the board tells that the family is dead.
func awaitAll(t *testing.T, b *board, boxes []*inbox) {
	t.Helper()
	for _, i := range boxes {
		before := int64(-1)
		eventually(t, i.name+" is written to", func() bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			if before < 0 {
				before = i.bytes
			}
			return i.noted && i.bytes > before || b.Done.Load() != 0
		})
	}
	boxes[0].drain() // of datagrams without a note, which would get one now
}
