package harness

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestStart(t *testing.T) {
	if os.Getenv("HARNESS_ECHOES") != "" {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Print(line)
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStart$")
	cmd.Env = append(os.Environ(), "HARNESS_ECHOES=1")
	in, out := Start(t, cmd)
	defer End(cmd)
	if _, err := fmt.Fprintln(in, "hello"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	End(cmd)
	End(cmd)
	if cmd.ProcessState == nil {
		t.Error("its end is not waited for")
	}
}

func TestFreeAddrs(t *testing.T) {
	addrs := FreeAddrs(t, 5)
	for _, a := range addrs {
		if host, _, err := net.SplitHostPort(a); err != nil || host != "127.0.0.1" {
			t.Errorf("%s: %v; want an address of the loopback", a, err)
		}
	}
	if slices.Sort(addrs); len(slices.Compact(addrs)) != 5 {
		t.Errorf("want 5 different addresses: %q", addrs)
	}
}

func TestBuffer(t *testing.T) {
	var b Buffer
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { fmt.Fprint(&b, "ab") })
	}
	all.Wait()
	if b.String() != strings.Repeat("ab", 4) {
		t.Errorf("it keeps %q", &b)
	}
}
