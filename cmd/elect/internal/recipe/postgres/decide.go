package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/electd/elect/cmd/elect/internal/recipe/postgres/server"
)

// era is the part of a WAL that one term wrote: it begins where its timeline does.
type era struct {
	Timeline uint32 `json:"timeline"`
	Token    uint64 `json:"token,string"`
	Begin    uint64 `json:"begin"`
}

// target is the primary of a term, as a replica was told to follow it.
type target struct {
	ID    string `json:"id"`
	Token uint64 `json:"token,string"`
	Eras  []era  `json:"eras"` // of its WAL; the last one is that of its term
}

func (t *target) last() era { return t.Eras[len(t.Eras)-1] }

// record is what a node has to know after a crash. The zero value is that of a node which knows nothing: one that never
// had data, or that has lost its state.
type record struct {
	SystemID uint64 `json:"system_id,string"`
	// Promised is the greatest token for which this node has answered: it follows no smaller one.
	Promised uint64 `json:"promised,string"`
	// Followed is the term of the last entry of this node's WAL, as the term of the last log entry in Raft. All that was
	// confirmed to clients in smaller terms is in this WAL.
	Followed uint64 `json:"followed,string"`
	Eras     []era  `json:"eras,omitempty"` // of this node's WAL
	// Target is what this node follows, or has followed last. Followed becomes its token when the WAL has reached it.
	Target *target `json:"target,omitempty"`
	// Primary means that this node was promoted under Followed, or was about to be: its WAL may have a tail that is
	// nobody else's.
	Primary bool `json:"primary,omitempty"`
	// Whole means that the data and the record belong together and nothing is missing. It is false from before the first
	// step that destroys something until the node streams.
	Whole bool `json:"whole,omitempty"`
	// Copied is the token of the term whose primary this data was copied from, while it is not yet Whole.
	Copied uint64 `json:"copied,string,omitempty"`
	// Making means that this node has begun to make the cluster, under Followed.
	Making bool `json:"making,omitempty"`
	// Founding means that this node made the cluster, and too few nodes have a copy yet for a promotion.
	Founding bool `json:"founding,omitempty"`
	// Floor is what the WAL has to reach: it reached that already. When a replica goes to a new timeline it receives the
	// segment once more from its start; after a crash in between recovery would end earlier than before.
	Floor uint64 `json:"floor,omitempty"`
}

// answer is what a node says when a new leader asks it. After it, the node confirms nothing to earlier terms.
type answer struct {
	ID       string `json:"id"`
	SystemID uint64 `json:"system_id,string"`
	Followed uint64 `json:"followed,string"`
	LSN      uint64 `json:"lsn"`
	Whole    bool   `json:"whole"`
	Blank    bool   `json:"blank"` // it never had data, or has lost its state and its data
	Founding bool   `json:"founding"`
	Priority int    `json:"priority"`
	Why      string `json:"why,omitempty"` // why it is not whole
}

// rules decides. All its methods are pure. Tests switch rules off, by their names with commas between them; the zero
// value has all of them.
type rules struct{ off string }

func (m rules) has(rule string) bool {
	return m.off == "" || !slices.Contains(strings.Split(m.off, ","), rule)
}

// promise answers a leader's first question: it returns the record to save before the answer, or false if the node has
// promised to a greater token.
func (m rules) promise(r record, token uint64) (record, bool) {
	if token < r.Promised && m.has("promise") {
		return r, false
	}
	r.Promised = max(r.Promised, token)
	return r, true
}

// saw notes how far the WAL of a node goes. A replica that has reached the timeline of its target is known to have a
// prefix of its WAL: PostgreSQL goes to a timeline only if what it has replayed is before the fork.
//
// On the way it passes the timelines in between, each of which it may stay on if its primary ends.
//
// A promotion that was interrupted before its timeline was noted is noted here. Otherwise the timeline would be missing in
// the eras of a later term of this node, and pg_rewind would take one of the same number for it.
func (m rules) saw(r record, p server.Position) record {
	t := r.Target
	if last := len(r.Eras) - 1; t == nil && r.Primary && last >= 0 && r.Eras[last].Token != r.Followed && p.Timeline > r.Eras[last].Timeline &&
		r.SystemID == p.SystemID && m.has("noted") {
		r.Eras = append(slices.Clone(r.Eras), era{Timeline: p.Timeline, Token: r.Followed, Begin: p.Begin})
	}
	if t == nil || r.Followed >= t.Token || r.SystemID != p.SystemID {
		return r
	}
	i := slices.IndexFunc(t.Eras, func(e era) bool { return e.Timeline == p.Timeline })
	if i < 0 || t.Eras[i].Token <= r.Followed || p.LSN < t.Eras[i].Begin && m.has("begin") || p.LSN < r.Floor && m.has("floor") {
		return r
	}
	if !r.Whole && (!p.Streaming || r.Copied != t.Token || i+1 < len(t.Eras)) {
		return r
	}
	r.Followed, r.Eras, r.Primary, r.Whole, r.Copied, r.Founding = t.Eras[i].Token, t.Eras[:i+1], false, true, 0, false
	r.Floor = max(r.Floor, t.Eras[i].Begin) // a crash while the segment of the fork is received again leaves less
	return r
}

// answer describes a node whose WAL grows no further.
func (m rules) answer(id string, priority int, r record, p server.Position, empty bool) answer {
	a := answer{ID: id, SystemID: p.SystemID, Followed: r.Followed, LSN: p.LSN, Founding: r.Founding, Priority: priority}
	a.Blank = empty && !r.Whole && r.SystemID == 0
	switch {
	case a.Blank:
		a.Why = "it has no data"
	case empty:
		a.Why = "its data is gone"
	case !r.Whole && m.has("whole"):
		a.Why = "its copy is not finished"
	case r.SystemID != p.SystemID:
		a.Why = fmt.Sprintf("its data is of the cluster %d and not of %d", p.SystemID, r.SystemID)
	case p.LSN < r.Floor && m.has("floor"):
		a.Why = fmt.Sprintf("its WAL ends at %s, before %s", server.FormatLSN(p.LSN), server.FormatLSN(r.Floor))
	case p.LSN < p.Begin && m.has("begin"): // a crash while the segment of the fork was received again
		a.Why = fmt.Sprintf("its WAL ends at %s, and its timeline %d begins at %s", server.FormatLSN(p.LSN), p.Timeline, server.FormatLSN(p.Begin))
	case !m.knows(r, p.Timeline):
		a.Why = fmt.Sprintf("its timeline %d is that of no term which it knows", p.Timeline)
	default:
		a.Whole = true
	}
	return a
}

// knows reports whether the term that wrote a timeline is known.
func (m rules) knows(r record, timeline uint32) bool {
	if !m.has("knows") {
		return true
	}
	if r.Primary && (len(r.Eras) == 0 || r.Eras[len(r.Eras)-1].Token != r.Followed) {
		return true // the promotion under Followed was interrupted before its timeline was noted
	}
	has := func(e era) bool { return e.Timeline == timeline }
	return slices.ContainsFunc(r.Eras, has) || r.Target != nil && slices.ContainsFunc(r.Target.Eras, has)
}

// What a leader does with the answers.
type verdict int

const (
	wait    verdict = iota // too few answers
	promote                // this node has all that was confirmed
	yield                  // another one has it
	found                  // there is no data anywhere: make the cluster
)

// choose decides which of the nodes that have answered is to be the primary. Of n nodes any n-k have one that knows of
// each commit, because the primary and k others had it.
func (m rules) choose(self string, ids []string, k int, answers map[string]answer) (verdict, string, string) {
	n := len(ids)
	var whole []answer
	var missing []string
	blank, like := 0, true
	mine := answers[self]
	for _, id := range ids {
		a, ok := answers[id]
		switch {
		case !ok:
			missing = append(missing, id+" does not answer")
		case a.Whole:
			whole = append(whole, a)
		default:
			missing = append(missing, id+": "+a.Why)
		}
		if a.Blank {
			blank++
		}
		like = like && ok && (!a.Whole || a.Followed == mine.Followed)
	}
	if blank == n {
		return found, self, ""
	}
	need := n - k
	if !m.has("quorum") {
		need--
	}
	if len(whole) < need {
		if mine.Whole && mine.Founding && len(answers) == n && like {
			return promote, self, "" // nobody else has ever been the primary, and this node has all that it wrote
		}
		return wait, "", fmt.Sprintf("%d of %d nodes with whole data have answered; want %d (%s)", len(whole), n, need, strings.Join(missing, "; "))
	}
	for _, a := range whole {
		if a.SystemID != whole[0].SystemID {
			return wait, "", fmt.Sprintf("%s has data of the cluster %d, and %s of %d; want the same", whole[0].ID, whole[0].SystemID, a.ID, a.SystemID)
		}
	}
	best := slices.MaxFunc(whole, func(a, b answer) int {
		byTerm := cmp.Compare(a.Followed, b.Followed)
		if !m.has("term") {
			byTerm = 0
		}
		return cmp.Or(byTerm, cmp.Compare(a.LSN, b.LSN),
			cmp.Compare(preferred(a, self), preferred(b, self)), cmp.Compare(b.ID, a.ID))
	})
	if best.ID == self || !m.has("best") && mine.Whole {
		return promote, self, ""
	}
	return yield, best.ID, fmt.Sprintf("%s has term %d up to %s, and this node term %d up to %s", best.ID, best.Followed, server.FormatLSN(best.LSN), mine.Followed, server.FormatLSN(mine.LSN))
}

// preferred orders nodes that have the same WAL.
func preferred(a answer, self string) int {
	if a.ID == self {
		return a.Priority*2 + 1
	}
	return a.Priority * 2
}

// begin is the record with which a node may be promoted under a token; false if it has promised to a greater one, or
// not to this one.
func (m rules) begin(r record, token uint64) (record, bool) {
	if r.Promised != token && m.has("begin-promised") {
		return r, false
	}
	r.Followed, r.Primary, r.Target = token, true, nil
	return r, true
}

// promoted notes the timeline of a promotion, or of a cluster that was made.
func (m rules) promoted(r record, p server.Position) record {
	r.Eras = append(slices.Clone(r.Eras), era{Timeline: p.Timeline, Token: r.Followed, Begin: p.Begin})
	r.SystemID, r.Floor = p.SystemID, p.LSN
	return r
}

// made is the record of a node whose cluster was made, under Followed.
func (m rules) made(r record, p server.Position) record {
	r = m.promoted(r, p)
	r.Making, r.Whole, r.Founding = false, true, true
	return r
}

// What a node does that does not lead.
type step int

const (
	stay    step = iota // nothing can be done
	follow              // set the target and stream from it
	rewind              // pg_rewind, then follow
	rebuild             // pg_basebackup, then follow
)

// plan decides how a node comes to follow a primary. The leader's position is that of its answer to a question which
// was asked after it was known to lead.
func (m rules) plan(r record, p server.Position, empty bool, t target, system uint64) (step, string) {
	switch {
	case t.Token < r.Promised && m.has("promise"):
		return stay, fmt.Sprintf("this node has promised to the token %d, and %s leads with %d", r.Promised, t.ID, t.Token)
	case len(t.Eras) == 0 || t.last().Token != t.Token:
		return stay, t.ID + " is not yet promoted"
	case r.SystemID != 0 && r.SystemID != system:
		return stay, fmt.Sprintf("%s has data of the cluster %d, and this node of %d; want the same, or an empty data directory here", t.ID, system, r.SystemID)
	case empty:
		return rebuild, "there is no data"
	case p.SystemID != system && (r.Whole || r.SystemID == 0):
		return stay, fmt.Sprintf("the data directory is of the cluster %d, and %s has %d; want an empty directory", p.SystemID, t.ID, system)
	case !r.Whole && r.Copied == t.Token:
		return follow, ""
	case !r.Whole:
		return rebuild, "its copy is not finished, or its state was lost"
	}
	if m.has("collision") {
		for _, mine := range r.Eras {
			for _, theirs := range t.Eras {
				if mine.Timeline == theirs.Timeline && mine.Token != theirs.Token {
					return rebuild, fmt.Sprintf("timeline %d is of the term %d here, and of %d at %s", mine.Timeline, mine.Token, theirs.Token, t.ID)
				}
			}
		}
	}
	i := slices.IndexFunc(t.Eras, func(e era) bool { return e.Timeline == p.Timeline })
	known := slices.ContainsFunc(r.Eras, func(e era) bool { return e.Timeline == p.Timeline })
	same := known || i >= 0 && r.Target != nil && slices.ContainsFunc(r.Target.Eras, func(e era) bool {
		return e.Timeline == p.Timeline && e.Token == t.Eras[i].Token
	})
	switch {
	case i < 0:
		return rewind, fmt.Sprintf("timeline %d is not in the history of %s", p.Timeline, t.ID)
	case !same && m.has("collision"):
		return rebuild, fmt.Sprintf("timeline %d here may be another one than that of %s", p.Timeline, t.ID)
	case i+1 < len(t.Eras) && p.LSN > t.Eras[i+1].Begin:
		return rewind, fmt.Sprintf("the WAL goes to %s, and the term %d began at %s", server.FormatLSN(p.LSN), t.Eras[i+1].Token, server.FormatLSN(t.Eras[i+1].Begin))
	}
	return follow, ""
}

// aim is the record with which a node follows a target: saved before the server is told.
func (m rules) aim(r record, p server.Position, t target) record {
	if r.Target != nil && r.Target.Token == t.Token {
		return r
	}
	r = m.saw(r, p)
	r.Promised = max(r.Promised, t.Token)
	if r.Whole {
		r.Floor = max(r.Floor, p.LSN)
	}
	r.Target = &t
	if !m.has("streamed") {
		r.Followed, r.Eras, r.Primary = t.Token, t.Eras, false
	}
	return r
}

// breaking is the record before a step that destroys data.
func (m rules) breaking(r record) record {
	r.Whole, r.Copied, r.Founding, r.Making, r.Floor = false, 0, false, false, 0
	return r
}

// copied is the record after it. floor is the position of the primary, asked after the copy was made: without having
// reached it the copy is not consistent.
func (m rules) copied(r record, t target, system, floor uint64) record {
	r.Promised = max(r.Promised, t.Token)
	r.SystemID, r.Copied, r.Floor, r.Target = system, t.Token, floor, &t
	r.Followed, r.Eras, r.Primary = 0, nil, false
	return r
}
