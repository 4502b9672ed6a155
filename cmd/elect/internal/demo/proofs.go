package demo

import (
	"os"
	"time"

	"github.com/electd/elect/agent/lease"
	"github.com/electd/elect/fence"
)

// proofs reads the lease pages of the jobs: until when a leader can prove that it leads, even while its elect run is
// frozen or cut off. On a system without lease pages it knows nothing.
type proofs struct {
	log   string
	pids  [size]int // of the jobs of pages
	pages [size]*lease.Page
}

// leaseSuffix is appended to the log's name and the node's for the file with the path of the lease page of its job.
const leaseSuffix = ".lease"

func leaseFile(log, id string) string { return log + "." + id + leaseSuffix }

// follow opens the pages of jobs that have begun to write.
func (p *proofs) follow(lines []line) {
	for _, l := range lines {
		i := index(l.ID)
		if i < 0 || l.Number == 0 || l.PID == p.pids[i] {
			continue
		}
		p.pids[i] = l.PID
		p.shut(i)
		path, err := os.ReadFile(leaseFile(p.log, l.ID))
		if err != nil {
			continue // there are no lease pages
		}
		if page, err := lease.Open(string(path)); err == nil { // else that leader is gone already
			p.pages[i] = page
		}
	}
}

// proof is what a lease page says.
type proof struct {
	token fence.Token
	left  time.Duration // for how long it proves leadership; 0: it does not
}

// read returns what the pages say; nil where there is none. A page counts as proof if it was one before the others were
// read, too: else one that ended between two reads, and the next one, would both be proofs.
func (p *proofs) read() (all [size]*proof) {
	for range 2 {
		for i, page := range p.pages {
			if page == nil {
				continue
			}
			is := &proof{page.Token(), page.Remaining()}
			if was := all[i]; was != nil && was.left == 0 {
				is = was
			}
			all[i] = is
		}
	}
	return all
}

func (p *proofs) shut(i int) {
	if p.pages[i] != nil {
		_ = p.pages[i].Close() // it was only read
		p.pages[i] = nil
	}
}

func (p *proofs) close() {
	for i := range p.pages {
		p.shut(i)
	}
}
