package runner

import (
	"errors"

	"github.com/electd/elect/agent/supervise"
)

// prepareSpare starts a keeper in advance while standing by in an election with a lease: a takeover then waits for the
// command's own start only. In an election without a lease there may be any number of candidates on one machine, and
// a further process for each would cost too much.
func (r *run) prepareSpare() {
	r.mu.Lock()
	have := r.spare != nil
	r.mu.Unlock()
	if have || r.election.Limits().Lease == 0 {
		return
	}
	log := r.log()
	spare, err := supervise.Prepare(r.contain, log)
	if err != nil {
		if !errors.Is(err, supervise.ErrUnsupported) {
			log.Warn("no keeper can be started in advance: a takeover takes longer", "error", err)
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
