//go:build linux

package redis

import (
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/electd/elect/test/chaos/network"
)

//go:embed writer.py
var pythonWriter string

//go:embed asker.py
var pythonAsker string

// Fault is a kind of round.
type Fault string

// The faults. Each is mended at the end of its round.
const (
	Kill       Fault = "kill"        // SIGKILL of the master, which is started again after 3 s
	Freeze     Fault = "freeze"      // SIGSTOP of the master for 9 s
	Cut        Fault = "cut"         // packets between the master's node and the others are dropped for 9 s
	KillBoth   Fault = "kill-both"   // the master and the acting elector are killed at once
	KillBehind Fault = "kill-behind" // a replica was stopped for a second when the master is killed
	Empty      Fault = "empty"       // the master is killed, and started again at once without its data
	Disk       Fault = "disk"        // the master cannot save its data, and so takes no write
	Planned    Fault = "planned"     // SENTINEL FAILOVER
)

// Faults are all of them.
func Faults() []Fault {
	return []Fault{Kill, Freeze, Cut, KillBoth, KillBehind, Empty, Disk, Planned}
}

// Schedule is n faults, each kind as often as the others, in an order from a seed.
func Schedule(seed uint64, n int, kinds ...Fault) (all []Fault) {
	if len(kinds) == 0 {
		kinds = Faults()
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for len(all) < n {
		for _, i := range r.Perm(len(kinds)) {
			all = append(all, kinds[i])
		}
	}
	return all[:n]
}

// Round is what was done.
type Round struct {
	Fault    Fault
	Old      int       // the node of the master
	Began    time.Time // just before the fault
	Mended   time.Time
	Whole    time.Time // when the system was whole again; zero: it was not
	Trouble  string
	Switched bool // another node has the master
	Lost     int  // acknowledged writes that are gone since this round
}

// wholeWithin is how long a system may take after a fault was mended.
const wholeWithin = 45 * time.Second

// Do runs one round on a system that is whole. A second later it returns.
func (y *System) Do(f Fault) Round {
	r := Round{Fault: f, Old: y.Master()}
	if r.Old < 0 {
		r.Trouble = "there is no master"
		return r
	}
	if err := y.do(&r); err != nil {
		r.Trouble = err.Error()
	}
	r.Mended = time.Now()
	if err := y.settle(wholeWithin); err != nil {
		r.Trouble = fmt.Sprint(r.Trouble, " ", err)
		return r
	}
	r.Whole = time.Now()
	time.Sleep(time.Second) // of quiet, in which clients write
	r.Switched = y.Master() != r.Old
	return r
}

// restart starts a server that was fenced.
func (y *System) restart(i int) error {
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", y.servers[i].Process.Pid)); err != nil || !strings.Contains(string(text), "State:\tZ") {
		return fmt.Errorf("the server of node %d was not fenced: %w", i, err)
	}
	end(y.servers[i])
	return y.startServer(i)
}

// The times of faults.
const (
	restartAfter = 3 * time.Second
	holdFor      = 9 * time.Second
)

func (y *System) do(r *Round) error {
	m := r.Old
	master := y.servers[m]
	switch r.Fault {
	case Kill:
		r.Began = time.Now()
		end(master)
		time.Sleep(restartAfter)
		return y.startServer(m)
	case Freeze:
		r.Began = time.Now()
		if err := master.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(holdFor)
		if y.Fence {
			return y.restart(m)
		}
		return master.Process.Signal(syscall.SIGCONT)
	case Cut:
		r.Began = time.Now()
		if err := y.net.Set(network.Isolate(Nodes, m)); err != nil {
			return err
		}
		time.Sleep(holdFor)
		if y.Fence {
			return errors.Join(y.net.Set(nil), y.restart(m))
		}
		return y.net.Set(nil)
	case KillBoth:
		a := y.Acting()
		if a < 0 {
			return errors.New("no elector acts")
		}
		r.Began = time.Now()
		end(y.keepers[a])
		end(master)
		time.Sleep(restartAfter)
		return errors.Join(y.startServer(m), y.startKeeper(a))
	case KillBehind:
		slow := y.servers[others(m)[0]].Process
		if err := slow.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(time.Second)
		r.Began = time.Now()
		end(master)
		err := slow.Signal(syscall.SIGCONT)
		time.Sleep(restartAfter)
		return errors.Join(err, y.startServer(m))
	case Empty:
		r.Began = time.Now()
		end(master)
		if err := errors.Join(os.RemoveAll(y.data(m)), os.MkdirAll(y.data(m), 0o755)); err != nil {
			return err
		}
		err := y.startServer(m)
		time.Sleep(restartAfter)
		return err
	case Disk:
		r.Began = time.Now()
		if err := os.RemoveAll(y.data(m)); err != nil {
			return err
		}
		if _, err := y.cli(m, "6379", "bgsave"); err != nil {
			return err
		}
		time.Sleep(holdFor)
		// The directory of the process is gone for good, so that only a restart helps.
		end(master)
		return errors.Join(os.MkdirAll(y.data(m), 0o755), y.startServer(m))
	case Planned:
		r.Began = time.Now()
		out, err := y.cli(others(m)[0], "26379", "sentinel", "failover", "mymaster")
		if err != nil || out != "OK" {
			return fmt.Errorf("SENTINEL FAILOVER: %s %v", out, err)
		}
		time.Sleep(restartAfter)
		return nil
	}
	return fmt.Errorf("%q is no fault", r.Fault)
}
