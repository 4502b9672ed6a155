package group

import (
	"slices"

	machine "github.com/electd/elect/internal/protocol/group"
)

// situation is what the runs of a suite have to meet at least once.
type situation uint8

const (
	sawAdopted situation = iota
	sawAccount
	sawTime
	sawInherited
	sawTakenBack
	sawOverrun
	sawOverrunCovers
	sawOverrunBeside
	sawDeserted
	sawCutForEver
	sawLateAnswer
	sawOldMessage
	sawHandedState
	sawRefused
	sawGoodbye
	sawWitness
	sawLateWitness
	sawNextEpoch
	sawPromiseOver
	sawFrozenPastClaim
	sawCheckRefuses
	sawStaleRefused
	sawUnbegun
	sawMoved
	sawTwin
	sawReelected
	sawSuspend
	sawJump
	sawHalt
	sawRevokedReported
	sawTooLate
	sawMisfit
	sawGaveWay

	situationCount
)

type situations [situationCount]bool

var sayings = [situationCount][2]string{
	sawAdopted:         {"adopted", "a new coordinator adopts a key under its old token"},
	sawAccount:         {"account", "cover ends by account, before its time"},
	sawTime:            {"time", "cover ends by time"},
	sawInherited:       {"inherited", "a session that a predecessor admitted reports to a new coordinator"},
	sawTakenBack:       {"taken-back", "a report without it takes an admission back"},
	sawOverrun:         {"overrun", "work goes on after its claim has passed"},
	sawOverrunCovers:   {"overrun-covers", "a reported overrun covers a key"},
	sawOverrunBeside:   {"overrun-beside", "work begins beside an overrun that nobody could report"},
	sawDeserted:        {"deserted", "a coordinator without the majority of its members resigns and stands aside"},
	sawCutForEver:      {"cut-for-ever", "a coordinator is cut off from most members for ever"},
	sawLateAnswer:      {"late-answer", "an answer comes after its claim has passed"},
	sawOldMessage:      {"old-message", "a message of an older attachment or tenure arrives"},
	sawHandedState:     {"handed-state", "work begins with the state of the last holder"},
	sawRefused:         {"refused", "a coordinator refuses a member"},
	sawGoodbye:         {"goodbye", "a member leaves in good order"},
	sawWitness:         {"witness", "a witness ends a session"},
	sawLateWitness:     {"late-witness", "a witness speaks after the next process of that id has started"},
	sawNextEpoch:       {"next-epoch", "a process goes on with its next epoch"},
	sawPromiseOver:     {"promise-over", "a session ends because its promise has run out"},
	sawFrozenPastClaim: {"frozen-past-claim", "a process stands still until its claim has passed"},
	sawCheckRefuses:    {"check-refuses", "a work's check says no before the work is told to end"},
	sawStaleRefused:    {"stale-refused", "the resource refuses a stale write"},
	sawUnbegun:         {"unbegun", "a key is released that was given too late to begin"},
	sawMoved:           {"moved", "a key moves from one living member to another"},
	sawTwin:            {"twin", "two processes have one id"},
	sawReelected:       {"re-elected", "E elects the same process again"},
	sawSuspend:         {"suspend", "a machine sleeps"},
	sawJump:            {"jump", "a clock jumps"},
	sawHalt:            {"halt", "all processes stand still at once"},
	sawMisfit:          {"misfit", "a process has settings that do not fit"},
	sawGaveWay:         {"gave-way", "a coordinator gives way to members that have keys, because they do not fit"},
	sawTooLate:         {"too-late", "a process stands still before it begins work, until its claim has passed"},
	sawRevokedReported: {"revoked-report", "a key that is reported is another's, and is revoked"},
}

func (w *World) saw(s situation) { w.seen[s] = true }

// notice looks for situations in a step of a member.
func (p *process) notice(in *machine.Input) {
	w := p.w
	if in.Kind != machine.Receive {
		return
	}
	switch in.Message.Type {
	case machine.Answer:
		if p.view != nil && p.view.Claim > 0 && !p.view.Proven(p.reading()) {
			w.saw(sawLateAnswer)
		}
	case machine.Revoke:
		for i := range w.fx.Sends {
			if w.fx.Sends[i].Message.Type == machine.Report {
				w.saw(sawRevokedReported)
			}
		}
	case machine.Assign:
		for i := range w.fx.Sends {
			if w.fx.Sends[i].Message.Type == machine.Released {
				w.saw(sawUnbegun)
			}
		}
	}
}

// before is what a coordinator knew before a step.
type before struct {
	sessions []machine.Standing
}

func (p *process) before(c *coordinator, in *machine.Input) before {
	switch {
	case in.Kind == machine.Dead, in.Kind == machine.Fire, in.Kind == machine.Receive && in.Message.Type == machine.Report:
		return before{c.Sessions(nil)}
	}
	return before{}
}

func standing(all []machine.Standing, s machine.Session) *machine.Standing {
	for i := range all {
		if all[i].Session == s {
			return &all[i]
		}
	}
	return nil
}

// noticeCoordinator looks for situations in a step of a coordinator.
func (p *process) noticeCoordinator(c *coordinator, in *machine.Input, b before) {
	w := p.w
	if !c.covered && c.Covered() {
		c.covered = true
		if in.Now.Boot < c.t0.Add(p.settings.Cover) {
			w.saw(sawAccount)
			w.stats.ByAccount++
		} else {
			w.saw(sawTime)
			w.stats.ByTime++
			if w.profile.name == "rolling" && w.stats.Tenures > 1 {
				w.fail(Account, p.node, "the cover of tenure %d ends by time", c.tenure.count)
			}
		}
		w.tell(p.node, "its cover is over")
	}
	m := &in.Message
	switch {
	case in.Kind == machine.Receive && m.Type == machine.Ended:
		for i := range c.reported {
			c.reported[i].overruns = slices.DeleteFunc(slices.Clone(c.reported[i].overruns), func(o machine.Held) bool {
				return slices.ContainsFunc(m.Held, func(h machine.Held) bool { return h.Key == o.Key && h.Token == o.Token })
			})
		}
	case in.Kind == machine.Receive && m.Type == machine.Report:
		if s := standing(c.Sessions(nil), m.Session); s != nil && s.Conn == in.Conn {
			c.reported = slices.DeleteFunc(c.reported, func(r reported) bool { return r.session == m.Session })
			c.reported = append(c.reported, reported{m.Session, m.Overruns})
		}
		old, now := standing(b.sessions, m.Session), standing(c.Sessions(nil), m.Session)
		if old != nil && old.Admitted && now != nil && !m.Admitted {
			w.saw(sawTakenBack)
		}
		if now != nil && now.Admitted && old == nil {
			w.saw(sawInherited)
		}
		for _, h := range m.Held {
			if k, ok := c.Key(h.Key); ok && k.Session == m.Session && k.Token == h.Token && h.Token.Tenure < c.tenure.count {
				w.saw(sawAdopted)
				w.stats.Adopted++
			}
		}
		for i := range w.fx.Sends {
			if w.fx.Sends[i].Message.Type == machine.Revoke {
				w.saw(sawRevokedReported)
			}
		}
	case in.Kind == machine.Receive && m.Tenure != 0 && m.Tenure != c.tenure.count:
		w.saw(sawOldMessage)
	case in.Kind == machine.Dead:
		if len(c.Sessions(nil)) < len(b.sessions) {
			w.saw(sawWitness)
		}
	case in.Kind == machine.Fire:
		if len(c.Sessions(nil)) < len(b.sessions) {
			w.saw(sawPromiseOver)
		}
	}
	for i := range w.fx.Changes {
		ch := &w.fx.Changes[i]
		if ch.Session != (machine.Session{}) && ch.Token.N > 1 {
			w.saw(sawMoved)
		}
	}
}

// Situation is what runs may meet.
type Situation struct {
	Name string `json:"name"`
	Says string `json:"says"`
	Seen int    `json:"seen"` // in how many runs
}
