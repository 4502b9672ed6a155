package runner

import (
	"errors"

	"github.com/electd/elect/agent/supervise"
)

// prepare starts a keeper in advance while standing by on an election with a
// lease: its takeover then waits for the command's own start and for nothing
// else. Where the kernel hands a lock over there may be any number of
// candidates on one machine, and a process more for each would be too dear.
func (r *run) prepare() {
	r.mu.Lock()
	have := r.spare != nil
	r.mu.Unlock()
	if have || r.election.Limits().Lease == 0 {
		return
	}
	log := r.log()
	spare, err := supervise.Prepare(log)
	if err != nil {
		if !errors.Is(err, supervise.ErrUnsupported) {
			log.Warn("no keeper can be started in advance: a takeover will take longer", "error", err)
		}
		return
	}
	r.mu.Lock()
	r.spare = spare
	r.mu.Unlock()
}

// takeSpare returns the keeper that was started in advance, or nil.
func (r *run) takeSpare() *supervise.Spare {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.spare
	r.spare = nil
	return s
}

func (r *run) closeSpare() {
	if s := r.takeSpare(); s != nil {
		s.Close()
	}
}
