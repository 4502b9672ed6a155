//go:build linux

package disk_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
	"github.com/electd/elect/test/chaos/disk"
)

// machine is a disk on which two candidates of a file election stand.
type machine struct {
	t          *testing.T
	disk       disk.Disk
	candidates []*node
	chance     *rand.Rand
	tokens     string
}

func newMachine(t *testing.T, elect string) *machine {
	t.Helper()
	m := &machine{t: t, disk: newDisk(t), chance: rand.New(rand.NewPCG(disk.Seed(t), 2)), tokens: filepath.Join(t.TempDir(), "tokens")}
	for i := range 2 {
		n := newNode(t, elect, "c"+strconv.Itoa(i+1), m.disk)
		n.args = append([]string{"run", "--election", "file:" + filepath.Join(m.disk.Path(), "elections"), "--name", "disks", "--id", n.id}, command(m.tokens)...)
		m.candidates = append(m.candidates, n)
	}
	return m
}

// start starts those that are not up.
func (m *machine) start() {
	for _, n := range m.candidates {
		if n.cmd == nil || !n.up() {
			n.start()
		}
	}
}

// powerLoss kills all, and what they had not synced is gone.
func (m *machine) powerLoss() {
	m.t.Helper()
	for _, n := range m.candidates {
		n.kill()
	}
	if err := m.disk.PowerLoss(); err != nil {
		m.t.Fatal(err)
	}
	for _, n := range m.candidates {
		n.join()
	}
}

// last is the token of the latest command, 0 before the first. The shell makes the
// file before it writes the first token to it.
func (m *machine) last() uint64 {
	m.t.Helper()
	text, err := os.ReadFile(m.tokens)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	if len(lines) == 0 {
		return 0
	}
	token, err := strconv.ParseUint(lines[len(lines)-1], 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return token
}

// leads waits until a command runs that is later than after.
func (m *machine) leads(after uint64) uint64 {
	m.t.Helper()
	m.await("a command after that with token "+strconv.FormatUint(after, 10), func() bool { return m.last() > after })
	return m.last()
}

func (m *machine) await(what string, so func() bool) {
	m.t.Helper()
	harness.Eventually(m.t, what, so)
}

// leader is the candidate whose command runs.
func (m *machine) leader() *node {
	m.t.Helper()
	want := "leading disks (token " + strconv.FormatUint(m.last(), 10) + ")"
	for _, n := range m.candidates {
		if strings.Contains(n.said(), want) {
			return n
		}
	}
	m.t.Fatalf("no node says %q", want)
	return nil
}

// TestFileElectionInOutages: a machine with two candidates loses power at a random moment, 40
// times, and no token is used twice. In between, when one of the two dies the other leads, by the
// locks of the disk.
func TestFileElectionInOutages(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	m := newMachine(t, build(t))
	rounds := long.FullOr(40, 5)
	m.start()
	m.leads(0)
	before := uint64(0)
	for range rounds {
		if err := m.disk.Fault(tearing(m.chance)); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(m.chance.Int64N(300)) * time.Millisecond)
		if m.chance.IntN(2) == 0 {
			n := m.candidates[m.chance.IntN(2)]
			n.kill()
			n.join()
			n.start()
		}
		m.powerLoss()
		before = m.last()
		m.start()
		if m.chance.IntN(3) > 0 {
			m.leads(before)
		}
	}
	if err := m.disk.Fault(disk.Fault{}); err != nil {
		t.Fatal(err)
	}
	token := m.leads(before)
	n := m.leader()
	n.kill()
	n.join()
	token = m.leads(token)
	if m.leader() == n {
		t.Errorf("%s leads, which is dead", n.id)
	}
	t.Logf("token %d; %d commands", token, rising(t, m.tokens))
}

// TestFileElectionOnBadDisks: a leader goes on while its disk is bad. A candidate after it
// leads on a disk that is slow, tries again on one that is full or fails, until it is
// well, and ends where it can only read.
func TestFileElectionOnBadDisks(t *testing.T) {
	long.Test(t, "it cuts the power of real processes again and again")
	tests := []struct {
		name  string
		fault disk.Fault
		says  string
		code  int // 0: it does not end
	}{
		{"slow", disk.Fault{SyncDelay: 300 * time.Millisecond}, "leading disks", 0},
		{"full", disk.Fault{Full: true}, "campaign failed; trying again", 0},
		{"sync-error", disk.Fault{SyncError: true}, "campaign failed; trying again", 0},
		{"write-error", disk.Fault{WriteError: true}, "campaign failed; trying again", 0},
		{"read-only", disk.Fault{ReadOnly: true}, "read-only file system", 73},
	}
	elect := build(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, elect)
			m.start()
			token := m.leads(0)
			leader := m.leader()
			other := m.candidates[0]
			if other == leader {
				other = m.candidates[1]
			}
			m.await("the other one stands by", func() bool { return strings.Contains(other.said(), "standing by") })
			if err := m.disk.Fault(test.fault); err != nil {
				t.Fatal(err)
			}
			select {
			case <-time.After(time.Second):
			case <-leader.ended:
			}
			if !leader.up() || m.last() != token {
				t.Errorf("the leader has ended, or another one leads: token %d after %d", m.last(), token)
			}
			leader.kill()
			leader.join()
			m.await(test.says, func() bool { return strings.Contains(other.said(), test.says) })
			if test.code != 0 {
				other.join()
				if got := other.cmd.ProcessState.ExitCode(); got != test.code {
					t.Errorf("it ends with %d; want %d", got, test.code)
				}
			} else if !other.up() {
				t.Error("it has ended")
			}
			if test.fault.SyncDelay == 0 && m.last() != token {
				t.Errorf("token %d was given out after %d", m.last(), token)
			}
			if err := m.disk.Fault(disk.Fault{}); err != nil {
				t.Fatal(err)
			}
			m.start()
			token = m.leads(token)
			m.powerLoss()
			m.start()
			m.leads(token)
			rising(t, m.tokens)
		})
	}
}
