package group

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/file"
	"github.com/electd/elect/internal/conditions"
)

// counting counts what comes and goes by its connections.
type counting struct {
	net.Listener
	bytes *atomic.Int64
}

func (l counting) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return countingConn{nc, l.bytes}, err
}

type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// oneOf is a member among many.
func oneOf(at, id string, keys int, change func(*Config)) (*Group, error) {
	election, err := elect.Openers{"file": file.Open}.Open(context.Background(), at, "shards", elect.Config{ID: id})
	if err != nil {
		return nil, err
	}
	cfg := Config{ID: id, Keys: Range(keys), Promise: 10 * time.Second, Poll: 300 * time.Millisecond, Placement: eager}
	change(&cfg)
	return Join(context.Background(), election, cfg)
}

// manyMembers is a process of members that work on shards until its standard input ends.
func manyMembers(at string) {
	n, _ := strconv.Atoi(os.Getenv("GROUP_MEMBERS"))
	keys, _ := strconv.Atoi(os.Getenv("GROUP_KEYS"))
	for i := range n {
		g, err := oneOf(at, name(i+2), keys, func(c *Config) { c.Observer = true })
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() { _ = g.Serve(context.Background(), func(*Shard) {}, func(*Shard) {}) }()
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// BenchmarkMembers is what a coordinator costs at rest by the numbers of members and of keys. All members but its own
// are in another process, and each of them wants all keys.
func BenchmarkMembers(b *testing.B) {
	for _, keys := range []int{1_000, 10_000} {
		for _, members := range []int{50, 100, 200} {
			b.Run(fmt.Sprintf("%d/%d", members, keys), func(b *testing.B) { measureMembers(b, members, keys) })
		}
	}
}

func measureMembers(b *testing.B, members, keys int) {
	at, bytes := "file:"+b.TempDir(), &atomic.Int64{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g, err := oneOf(at, name(1), keys, func(c *Config) { c.Listener = counting{l, bytes} })
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	go func() { _ = g.Serve(b.Context(), func(*Shard) {}, func(*Shard) {}) }()
	c := &crowd{b: b, all: []*Group{g}}
	c.admitted(1)
	others := exec.Command("/proc/self/exe")
	others.Env = append(os.Environ(), "GROUP_MEMBERS_AT="+at, fmt.Sprint("GROUP_MEMBERS=", members-1), fmt.Sprint("GROUP_KEYS=", keys))
	others.Stderr = os.Stderr
	in, err := others.StdinPipe()
	if err == nil {
		err = others.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = others.Process.Signal(syscall.SIGKILL)
		_ = in.Close()
		_ = others.Wait()
	}()
	c.admitted(members)
	c.settled()
	theirs := func() time.Duration {
		t, err := conditions.CPUTime(others.Process.Pid)
		if err != nil {
			b.Fatal(err)
		}
		return t
	}
	var own, other, sent float64
	for b.Loop() {
		at, before, sentBefore := time.Now(), theirs(), bytes.Load()
		own += rest()
		span := time.Since(at)
		other += 100 * float64(theirs()-before) / float64(span)
		sent += float64(bytes.Load()-sentBefore) / span.Seconds()
	}
	n := float64(b.N)
	b.ReportMetric(own/n, "%core@coordinator")
	b.ReportMetric(other/n, "%core@members")
	b.ReportMetric(sent/n, "B/s")
	b.ReportMetric(0, "ns/op")
}
