package supervise_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/internal/clock"
)

// BenchmarkNetworkGuardRenewal is what a renewal of the lease costs.
func BenchmarkNetworkGuardRenewal(b *testing.B) {
	g := newGuarded(b, nil)
	for b.Loop() {
		g.Until(clock.Now().Add(patience))
	}
}

// pump writes blocks of a size as fast as it can, as many as it reads, and says how many nanoseconds they took.
// Arguments: the network, the address, the size.
func pump(args []string) {
	c, err := net.Dial(args[0], args[1])
	check(err)
	size, err := strconv.Atoi(args[2])
	check(err)
	block := make([]byte, size)
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		n, err := strconv.Atoi(s.Text())
		check(err)
		begun := clock.Now()
		for range n {
			_, err := c.Write(block)
			check(err)
		}
		fmt.Println(int64(clock.Now().Sub(begun)))
	}
}

// BenchmarkNetworkGuardThroughput writes rounds under a guard and without, in turns. The figure is the median of the
// ratio of two neighbours: the throughput under the guard, in percent of that without. The kernel's switch for programs
// of cgroups is on in both.
func BenchmarkNetworkGuardThroughput(b *testing.B) {
	for _, c := range []struct {
		name, network string
		size, blocks  int
	}{
		{"UDP of 64 bytes", "udp", 64, 10000},
		{"UDP of 1400 bytes", "udp", 1400, 10000},
		{"a TCP stream", "tcp", 64 << 10, 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := newGuarded(b, nil)
			g.Until(forever)
			guarded, free := startPump(b, g, c.network, c.size), startPump(b, nil, c.network, c.size)
			var ratios []float64
			var took [2]float64
			for b.Loop() {
				first, second := guarded, free
				swap := len(ratios)%2 == 1
				if swap {
					first, second = free, guarded
				}
				with, without := first(c.blocks), second(c.blocks)
				if swap {
					with, without = without, with
				}
				took[0], took[1] = took[0]+with, took[1]+without
				ratios = append(ratios, without/with)
			}
			slices.Sort(ratios)
			b.ReportMetric(100*ratios[len(ratios)/2], "%median")
			b.ReportMetric(100*took[1]/took[0], "%total")
			b.ReportMetric(took[0]/float64(len(ratios)*c.blocks), "ns/write")
		})
	}
}

// startPump starts one, in g if that is not nil, and somebody who reads what it writes.
func startPump(b *testing.B, g *supervise.Guarded, network string, size int) func(blocks int) (nanoseconds float64) {
	addr := ""
	if network == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = io.Copy(io.Discard, c)
			}
		}()
		addr = l.Addr().String()
	} else { // nobody reads: a packet counts as sent when the socket's buffer has refused it
		addr = packets(b, "udp4", "127.0.0.1:0").addr
	}
	cmd := exec.Command(executable(b), network, addr, strconv.Itoa(size))
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = partEnv("pump"), os.Stderr, &syscall.SysProcAttr{}
	if g != nil {
		g.Enter(cmd.SysProcAttr)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, lines := listen(b)
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return func(blocks int) float64 {
		if _, err := fmt.Fprintln(in, blocks); err != nil || !lines.Scan() {
			b.Fatalf("the pump: %v, %v", err, lines.Err())
		}
		took, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			b.Fatal(err)
		}
		return took
	}
}
