package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// World is what an acting elector knows.
type World struct {
	Config   *Config
	Now      time.Time
	Decision Decision         // that of a majority
	Told     Decision         // the one that was announced in this term
	Sights   map[string]Sight // by the id of the server
	Votes    int              // electors that see the decided master down, this one included
	Late     int              // electors that have waited for it for some time
	Alarms   int              // how often it was late in this term, and has answered
	Held     bool             // servers were taken away from their master
	// Set are the lives, by run id, of servers that have their settings.
	Set map[string]bool
	// Skip are servers, by id, at which an order has failed just now.
	Skip map[string]bool
}

// Kind is what an acting elector does next.
type Kind string

// The kinds.
const (
	Wait       Kind = "wait"
	Adopt      Kind = "adopt"       // decide for the first time, that Server is master
	Confirm    Kind = "confirm"     // decide anew for the same server, whose life or history has another name
	Suspend    Kind = "suspend"     // the master is late: take the others away, so that it has been fenced when it is down
	Resume     Kind = "resume"      // it answers again: give the others back
	Fail       Kind = "failover"    // the master is down: choose another one
	SwitchOver Kind = "switch over" // the master answers, and is ill: hand over without a loss
	Finish     Kind = "finish"      // promote Server, which was decided
	Announce   Kind = "announce"    // tell the electors
	Demote     Kind = "demote"      // Server believes that it is a master
	Repoint    Kind = "repoint"     // Server is the replica of something else
	Configure  Kind = "configure"   // Server has not the settings of this recipe
)

// Step is what an acting elector does next, to which server, and why.
type Step struct {
	Kind   Kind
	Server string
	Why    string
}

// Next decides. What the master needs comes before what replicas need.
func (w *World) Next() Step {
	if w.Decision.none() {
		return w.first()
	}
	d, m := &w.Decision, w.Config.server(w.Decision.Master)
	if m == nil {
		return Step{Wait, "", fmt.Sprintf("the master that was decided, %s, is not in servers; want it there", d.Master)}
	}
	s := w.Sights[d.Master]
	fresh := s.fresh(w.Now, w.Config.DownAfter)
	if why := s.down(w.Now, w.Config.DownAfter); why != Up {
		switch {
		case w.Votes < w.Config.Quorum:
			return Step{Wait, d.Master, fmt.Sprintf("this elector finds the master %s %s: %s; so do %d electors, and %d are wanted", d.Master, why, s.Err, w.Votes, w.Config.Quorum)}
		case why == Ill:
			return Step{SwitchOver, d.Master, fmt.Sprintf("it answers %.80q", s.Ill)}
		}
		return Step{Fail, d.Master, fmt.Sprintf("it is %s: %s", why, s.Err)}
	}
	if s.late(w.Now, w.Config.overdue(w.Alarms)) {
		if !w.Held && w.Late >= w.Config.Quorum && w.Config.ToWrite > 0 {
			return Step{Suspend, d.Master, fmt.Sprintf("it has not answered for %v", w.Now.Sub(s.OK).Round(time.Millisecond))}
		}
		return Step{Wait, d.Master, ""}
	}
	if !fresh {
		return Step{Wait, d.Master, ""}
	}
	if d.RunID != "" && s.Info.RunID != d.RunID {
		return w.restarted(d, &s)
	}
	if !s.Info.Master {
		return Step{Finish, d.Master, "it was decided, and is a replica"}
	}
	if w.Held { // it is the master that they were taken away from, in the same life
		return Step{Resume, d.Master, "it answers"}
	}
	if d.RunID == "" || s.Info.ReplID != d.ReplID {
		return Step{Confirm, d.Master, "its history has another name"}
	}
	if w.Told != *d {
		return Step{Announce, d.Master, ""}
	}
	return w.others(m)
}

// others are steps about servers other than the master, in the order of the configuration.
func (w *World) others(m *server) Step {
	for i := range w.Config.servers {
		o := &w.Config.servers[i]
		s := w.Sights[o.id]
		if !s.fresh(w.Now, w.Config.DownAfter) || w.Skip[o.id] {
			continue
		}
		switch {
		case o.id == m.id:
		case s.Info.Master:
			return Step{Demote, o.id, "it believes that it is a master"}
		case s.Info.Of != m.at:
			return Step{Repoint, o.id, "it is the replica of " + s.Info.Of.Host + ":" + s.Info.Of.port()}
		}
		if !w.isSet(&s) {
			return Step{Configure, o.id, ""}
		}
	}
	if d := &w.Decision; (d.Lag != w.Config.MaxLag || d.ToWrite != w.Config.ToWrite) && w.allSet() {
		return Step{Confirm, m.id, "all servers have other settings now"}
	}
	return Step{Kind: Wait}
}

// first finds the master when nothing was ever decided. All servers must be seen, because one that is not seen may have
// the data.
func (w *World) first() Step {
	var masters, full, missing []string
	for i := range w.Config.servers {
		o := &w.Config.servers[i]
		s := w.Sights[o.id]
		if !s.fresh(w.Now, w.Config.DownAfter) {
			missing = append(missing, o.id)
			continue
		}
		if s.Info.Master {
			masters = append(masters, o.id)
			if s.Info.Keys || s.Info.Replicas > 0 {
				full = append(full, o.id)
			}
		}
	}
	initial := w.Config.Initial
	switch {
	case len(missing) > 0:
		return Step{Wait, "", fmt.Sprintf("there was no master yet, and %s cannot be seen; want all servers, because each may have the data", strings.Join(missing, ", "))}
	case initial != "" && !slices.Contains(masters, initial):
		return Step{Wait, "", fmt.Sprintf("initial-master is %s, which is a replica; want REPLICAOF NO ONE there, or one that is a master: %s", initial, cmp.Or(strings.Join(masters, ", "), "none is"))}
	case initial != "":
		return Step{Adopt, initial, "it is initial-master"}
	case len(full) > 1:
		return Step{Wait, "", fmt.Sprintf("%s are masters that have data or replicas; want one of them as initial-master: the others lose what they have", strings.Join(full, ", "))}
	case len(full) == 1:
		return Step{Adopt, full[0], "it is the only master that has data or replicas"}
	case len(masters) > 0:
		return Step{Adopt, masters[0], "no server has data"}
	}
	return Step{Wait, "", "all servers are replicas; want REPLICAOF NO ONE at the one with the data"}
}

// restarted decides what to do with a master that has begun another life. It may have lost its data, or the last second
// of them, and its replicas would throw away theirs. So a replica that has the history goes before it.
func (w *World) restarted(d *Decision, s *Sight) Step {
	infos, missing := map[string]Info{}, []string{}
	for id, o := range w.Sights {
		switch {
		case id == d.Master:
		case o.fresh(w.Now, w.Config.DownAfter):
			infos[id] = o.Info
		default:
			missing = append(missing, id)
		}
	}
	if ids := candidates(d, infos, len(missing) == 0, w.stale(s)); len(ids) > 0 {
		return Step{Fail, d.Master, "it has restarted, and " + ids[0] + " has its data"}
	}
	if !s.Info.Keys && len(missing) > 0 {
		slices.Sort(missing)
		return Step{Wait, d.Master, fmt.Sprintf("the master %s has restarted without data, and %s cannot be seen, and may have them; want that server back, or elect recipe redis failover --to", d.Master, strings.Join(missing, ", "))}
	}
	return Step{Confirm, d.Master, "it has restarted, and no replica has its former data"}
}

// stale is for how long a replica may have had no link to the master, as in Sentinel's documentation: ten times
// down-after, and as long as the master has been down.
func (w *World) stale(master *Sight) time.Duration {
	return 10*w.Config.DownAfter + max(w.Now.Sub(master.OK), 0)
}

// candidates are the servers that may be promoted, the best first: by replica-priority, then the greatest offset, then
// the smallest run id, as Sentinel's documentation has it. They have a part, from its beginning, of the history of the
// decided master. One that has only seen the history before that is a candidate if no other can be: this master has
// not shown a history yet, or all servers are among the infos, which do not have the master's.
func candidates(d *Decision, infos map[string]Info, all bool, stale time.Duration) []string {
	var own, former []string
	for id, i := range infos {
		switch {
		case i.Master, i.Priority == 0, i.Syncing, i.ReplID == "", i.LinkDown > stale:
		case i.ReplID == d.ReplID:
			own = append(own, id)
		case i.ReplID == d.Previous && (all || d.ReplID == ""):
			former = append(former, id)
		}
	}
	if own == nil {
		own = former
	}
	slices.SortFunc(own, func(a, b string) int {
		x, y := infos[a], infos[b]
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(y.Offset, x.Offset), strings.Compare(x.RunID, y.RunID))
	})
	return own
}

// fenced says how long it takes until no old master takes writes, counted from the last server that was taken away, or
// why that is not sure. A silent server is a master with the other silent ones as its replicas, at worst, and with
// outsiders, which are not in the configuration.
func (d *Decision) fenced(silent, outsiders int) (wait time.Duration, why string) {
	switch {
	case silent == 0:
		return 0, ""
	case d.Lag == 0:
		return 0, fmt.Sprintf("%d servers cannot be reached, and there was no time yet at which all servers had their settings; want them back", silent)
	case silent+outsiders <= d.ToWrite:
		return d.fenceTime(), ""
	}
	why = fmt.Sprintf("%d of the servers cannot be reached, and may be a master with %d replicas, which with min-replicas-to-write: %d takes writes; want one of them back", silent, silent-1+outsiders, d.ToWrite)
	if outsiders > 0 {
		why += fmt.Sprintf("; %d of the replicas are not in servers", outsiders)
	}
	return 0, why
}

// allSet reports whether all servers are seen, and have their settings.
func (w *World) allSet() bool {
	return !slices.ContainsFunc(w.Config.servers, func(o server) bool {
		s := w.Sights[o.id]
		return !s.fresh(w.Now, w.Config.DownAfter) || !w.isSet(&s)
	})
}

// isSet reports whether a server has its settings. A master that does not count its replicas has others since.
func (w *World) isSet(s *Sight) bool {
	return w.Set[s.Info.RunID] && !(s.Info.Master && s.Info.Good < 0 && w.Config.ToWrite > 0)
}
