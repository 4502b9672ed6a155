package supervise_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
	"github.com/electd/elect/internal/long"
)

// The steps of a write. A writer may be held before each.
var (
	requestSteps = []string{"connect", "head", "body", "rest of the body", "answer"}
	mailSteps    = []string{"MAIL FROM:<a@example.org>", "RCPT TO:<b@example.org>", "DATA", "x", "."}
)

// pour writes without end to three servers at a time: datagrams, requests of HTTP, and mails. Argument: board. Their
// addresses are in a file beside it. Place 0 has its pid, and tells when a datagram was refused. Places 1 and 2 are
// those of the writers of requests and mails: PID is the step at which the test holds it, from 1, and Alive the step at
// which it is held.
func pour(args []string) {
	path := parseArgs(args)["board"]
	b, err := openBoard(path)
	check(err)
	text, err := os.ReadFile(path + ".servers")
	check(err)
	addr := strings.Fields(string(text))
	b.Members[0].PID.Store(int64(os.Getpid()))
	nap := func() {
		ts := unix.NsecToTimespec(100_000)
		_ = unix.Nanosleep(&ts, nil)
	}
	step := func(p *place, n int) {
		for ; p.PID.Load() == int64(n+1); nap() {
			p.Alive.Store(int64(n + 1))
		}
	}
	go func() {
		udp, err := net.Dial("udp", addr[0])
		check(err)
		for n := 0; ; n++ {
			if _, err := udp.Write(make([]byte, 100)); err != nil {
				b.Members[0].Alive.Store(int64(clock.Now()))
				nap()
			} else if n%16 == 0 { // others use this machine, too
				nap()
			}
		}
	}()
	request := func(p *place) error {
		step(p, 0)
		c, err := net.Dial("tcp", addr[1])
		if err != nil {
			return err
		}
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
		for {
			if request(&b.Members[1]) != nil {
				nap()
			}
		}
	}()
	mail, err := net.Dial("tcp", addr[2])
	check(err)
	answers := bufio.NewReader(mail)
	for {
		for n, line := range mailSteps {
			step(&b.Members[2], n)
			if _, err := fmt.Fprint(mail, line+"\r\n"); err != nil {
				nap()
			} else { // for each line one answer
				_, _ = answers.ReadString('\n')
			}
		}
	}
}

// inbox is a server that checks nothing, and knows when what it reads has arrived: the kernel notes it.
type inbox struct {
	addr string

	mu    sync.Mutex
	conns []syscall.RawConn
	bytes int64
	last  int64 // the latest arrival, on CLOCK_REALTIME
	noted bool  // the kernel has noted one
}

// attend reads a connection, and answers what there is with answer.
func (i *inbox) attend(c syscall.Conn, answer func(text string)) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	if err != nil {
		panic(err)
	}
	i.mu.Lock()
	i.conns = append(i.conns, raw)
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
			i.last = max(i.last, at)
		}
		return n, err
	}
}

// drain reads all that has arrived, without an answer, and returns how much that ever was, and when the latest arrived.
func (i *inbox) drain() (bytes, last int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	buf := make([]byte, 1<<16)
	for _, raw := range i.conns {
		_ = raw.Control(func(fd uintptr) { // it may be closed
			for n := 1; n > 0; {
				n, _ = i.read(int(fd), buf)
			}
		})
	}
	return i.bytes, i.last
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

// inboxes are servers for datagrams, HTTP and mail.
func inboxes(t *testing.T) (list []*inbox, addrs string) {
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	udp := &inbox{addr: in.LocalAddr().String()}
	go udp.attend(in, func(string) {})
	list = []*inbox{udp,
		listenTo(t, func(c net.Conn, text string) {
			if strings.HasSuffix(text, "x") { // the end of the body, or a part of it: a client takes one answer for each request
				_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
				_ = c.(*net.TCPConn).CloseWrite()
			}
		}),
		listenTo(t, func(c net.Conn, text string) {
			_, _ = io.WriteString(c, strings.Repeat("250 taken\r\n", strings.Count(text, "\n")))
		}),
	}
	return list, list[0].addr + " " + list[1].addr + " " + list[2].addr
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

// underway is how long a packet may be on its way through this machine, after the guard has let it pass.
const underway = time.Millisecond

// judge fails if something has arrived after the end of a lease.
func judge(t *testing.T, boxes []*inbox, end clock.Boot) (bytes int64) {
	t.Helper()
	for k, i := range boxes {
		n, last := i.drain()
		if late := time.Duration(last - realtime(end)); late > underway {
			t.Errorf("server %d: the last of %d bytes has arrived %v after the end", k, n, late)
		}
		bytes += n
	}
	return bytes
}

// means are ways to keep from running the processes and, if it is not "", those of a cgroup. Each returns when they are
// kept or, for starve, when they have almost no processor.
var means = []struct {
	name string
	keep func(t *testing.T, group string, pids ...int) (thaw func())
}{{"SIGSTOP", halt}, {"freezer", freezer}, {"starved", starve}}

func halt(t *testing.T, _ string, pids ...int) (thaw func()) {
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGSTOP)
		eventually(t, "it is stopped", func() bool { return stopped(pid) || !alive(pid) })
	}
	return func() {
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
}

// freezer freezes the cgroup or, without one, puts the processes in another one, and freezes that.
func freezer(t *testing.T, group string, pids ...int) (thaw func()) {
	if group == "" {
		_, own, err := supervise.OwnCgroup()
		if err != nil {
			t.Fatal(err)
		}
		group = groupOf(t, own, pids)
	}
	write := func(text string) { _ = os.WriteFile(group+"/cgroup.freeze", []byte(text), 0) } // it may be removed
	write("1")
	thaw = func() { write("0") }
	t.Cleanup(thaw)
	eventually(t, "it is frozen", func() bool {
		text, err := os.ReadFile(group + "/cgroup.events")
		return err != nil || strings.Contains(string(text), "frozen 1")
	})
	return thaw
}

// starve leaves the processes 1 % of a processor or, where no cgroup can limit them, what loops leave to those of the
// policy SCHED_IDLE.
func starve(t *testing.T, _ string, pids ...int) (thaw func()) {
	const quotas = "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(quotas + "/cpu.cfs_quota_us"); err == nil && os.Getuid() == 0 {
		group := groupOf(t, quotas, nil)
		if err := os.WriteFile(group+"/cpu.cfs_quota_us", []byte("1000"), 0); err != nil { // of 100 ms
			t.Fatal(err)
		}
		join(t, group, pids)
		thaw = func() { join(t, quotas, pids) }
		t.Cleanup(thaw)
		return thaw
	}
	policy := func(policy uint32) {
		for _, pid := range pids {
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
			for _, task := range tasks {
				id, _ := strconv.Atoi(filepath.Base(task))
				_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: policy}, 0)
			}
		}
	}
	policy(unix.SCHED_IDLE)
	var over atomic.Bool
	for range runtime.NumCPU() {
		go func() {
			for !over.Load() {
			}
		}()
	}
	thaw = func() { over.Store(true); policy(unix.SCHED_NORMAL) }
	t.Cleanup(thaw)
	return thaw
}

// groupOf makes a cgroup with these processes.
func groupOf(t *testing.T, parent string, pids []int) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0) // v1 has none
		eventually(t, "the cgroup is empty", func() bool { return unix.Rmdir(dir) == nil })
	})
	join(t, dir, pids)
	return dir
}

func join(t *testing.T, group string, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0); err != nil && alive(pid) {
			t.Error(err)
		}
	}
}

// holdAt has one of the writers wait before one of the steps of a write, or lets it go on for a while.
func holdAt(t *testing.T, b *board, n int) (release func()) {
	t.Helper()
	writer := int(b.Members[0].PID.Load())
	p, steps := &b.Members[1+n%2], [][]string{requestSteps, mailSteps}[n%2]
	step := n / 2 % (len(steps) + 1)
	if step == len(steps) {
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
		return func() {}
	}
	p.PID.Store(int64(step + 1))
	eventually(t, "it is held", func() bool { return p.Alive.Load() == int64(step+1) || !alive(writer) })
	return func() { p.PID.Store(0) }
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

// awaitAll waits until all servers have read something and the kernel notes arrivals, which it begins to do some time
// after a socket asks for it, or until the board tells that the family is dead.
func awaitAll(t *testing.T, b *board, boxes []*inbox) {
	t.Helper()
	for _, i := range boxes {
		eventually(t, "it writes", func() bool {
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.noted || b.Done.Load() != 0
		})
	}
	boxes[0].drain() // of datagrams without a note, which would get one now
}

// freezeWriter keeps a writer from running while its guard closes. Nobody else knows of its lease.
func freezeWriter(t *testing.T, n int, keep func(*testing.T, string, ...int) func(), wait time.Duration) (bytes int64) {
	g := newGuarded(t, nil)
	g.Until(forever)
	path, b, boxes := servers(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "board="+path)
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = partEnv("pour"), os.Stderr, &syscall.SysProcAttr{}
	g.Enter(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	awaitAll(t, b, boxes)
	release := holdAt(t, b, n)
	thaw := keep(t, g.Path(), cmd.Process.Pid)
	end := clock.Now().Add(time.Duration(rand.IntN(3000)) * time.Microsecond)
	g.Until(end)
	eventually(t, "the lease is over", func() bool { return clock.Now() > end })
	release()
	thaw()
	<-time.After(wait)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	g.Remove()
	return judge(t, boxes, end)
}

// freezeParents keeps parent and keeper from running until their lease is over, and the writer, too, if n is not
// negative. Then the writer goes on, and wait later parent and keeper do. It returns 0 if they were too late to keep.
func freezeParents(t *testing.T, n int, keep func(*testing.T, string, ...int) func(), wait time.Duration) (bytes int64) {
	_, name := guardNetwork(t)
	path, b, boxes := servers(t)
	lock := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(lock, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := startPart(t, exe, "parent", nil, "board="+path, "lock="+lock, "command=pour", "contain="+name, "network=yes", "lease=2s")
	eventually(t, "the parent has told", func() bool { return b.Parent.Load() != 0 && b.Keeper.Load() != 0 })
	awaitAll(t, b, boxes)
	writer := int(b.Members[0].PID.Load())
	release, thaw := func() {}, func() {}
	if n >= 0 {
		release = holdAt(t, b, n)
	}
	b.Arm.Store(1) // it does not renew its lease any more
	parents := keep(t, "", parent.Process.Pid, int(b.Keeper.Load()))
	if list := cgroups(t, name); n >= 0 && len(list) == 1 {
		thaw = keep(t, list[0], writer)
	}
	end := clock.Boot(b.Deadline.Load())
	early := clock.Now() < end && alive(writer)
	eventually(t, "the lease is over", func() bool { return clock.Now() > end })
	release()
	thaw()
	lived := alive(writer)
	if n < 0 && lived {
		eventually(t, "it is refused", func() bool { return clock.Boot(b.Members[0].Alive.Load()) > end || !alive(writer) })
	}
	<-time.After(wait)
	parents()
	_ = parent.Wait()
	eventually(t, "the cgroup is removed", func() bool { return len(cgroups(t, name)) == 0 })
	bytes = judge(t, boxes, max(end, clock.Boot(b.Deadline.Load())))
	if early && lived {
		return bytes
	}
	t.Log("the family was dead before the end of its lease")
	return 0
}

// TestGuardFreezes: a writer is frozen before each of the steps of a write, or at some point, its lease ends, and it
// goes on. Nothing arrives after the end at servers for datagrams, HTTP and mail, by the kernel's clock. Either the
// writer alone is frozen, and nobody kills it, or parent and keeper are, too, and go on after it.
func TestGuardFreezes(t *testing.T) {
	var freezes, bytes atomic.Int64
	t.Cleanup(func() { t.Logf("%d freezes; %d bytes arrived before the end of a lease", freezes.Load(), bytes.Load()) })
	for n := range long.FullOr(10_000, 36) {
		m, all := means[n%3], n/3%12 == 11
		t.Run(fmt.Sprintf("%d,%s,all=%t", n, m.name, all), func(t *testing.T) {
			t.Parallel()
			wait := 10 * time.Millisecond
			if n%20 == 0 {
				wait = 500 * time.Millisecond // the kernel sends again
			}
			arrived := int64(0)
			if all {
				arrived = freezeParents(t, n/36, m.keep, wait)
			} else {
				arrived = freezeWriter(t, n/3, m.keep, wait)
			}
			if arrived > 0 {
				freezes.Add(1)
				bytes.Add(arrived)
			}
		})
	}
}

// TestGuardOverlaps: on a starved machine keepers were seen to be late by these times, so that a family overlapped with
// its successor. Parent and keeper get no processor for so long, and the family runs on: nothing of it arrives after
// the end.
func TestGuardOverlaps(t *testing.T) {
	for _, late := range []time.Duration{310 * time.Millisecond, 44 * time.Millisecond, 9 * time.Millisecond} {
		for _, m := range means {
			t.Run(fmt.Sprintf("%v,%s", late, m.name), func(t *testing.T) {
				t.Parallel()
				freezeParents(t, -1, m.keep, late)
			})
		}
	}
}
