package group

import (
	"slices"
	"time"

	machine "github.com/electd/elect/internal/protocol/group"
	"github.com/electd/elect/lab/sim"
)

// The invariants beside those of package sim.
const (
	Revived  sim.Invariant = "revived"           // nothing of an epoch that has ended is proven again
	Joined   sim.Invariant = "joined"            // nothing is given up before its work has returned, and no report leaves work out
	Orders   sim.Invariant = "orders"            // stops and starts fit what runs
	Silent   sim.Invariant = "silent"            // a coordinator whose Check is not nil gives nothing
	Covered  sim.Invariant = "covered"           // no key is given while an overrun of it is reported
	Spins    sim.Invariant = "spins"             // a Fire is followed by a later one
	Vouched  sim.Invariant = "known-to-vouchers" // who may vouch knows every admitted session with a live claim
	Obeys    sim.Invariant = "obeys"             // no member reports to a coordinator below the greatest T that it has seen
	Admitted sim.Invariant = "admitted"          // no work begins in a session that is not admitted
	Account  sim.Invariant = "by-account"        // in a rolling restart no coordinator but the first waits for W
	Placed   sim.Invariant = "placement"         // placement accepts what it is told, and its moves name members
	Misfits  sim.Invariant = "misfits"           // a member that does not fit gets no key of another, is not elected, and costs nobody a key
)

// judgeKey checks the works of a key against each other. It is called where one begins or a claim grows: in between
// claims only end.
func (w *World) judgeKey(k *key) {
	if w.profile.beyond {
		return
	}
	for i, x := range k.running {
		for _, y := range k.running[i+1:] {
			if x.live() && y.proven() || x.proven() && y.live() {
				w.fail(sim.Exclusive, y.p.node, "work of %s under %v as %v, proven %v, beside work under %v as %v of %s, proven %v",
					k.name, y.token, y.view.Session, y.proven(), x.token, x.view.Session, x.p.node.ID, x.proven())
			}
		}
	}
}

// judgeStart checks a work that begins.
func (p *process) judgeStart(x *work) {
	w := p.w
	switch c := x.token.Compare(x.greatest); {
	case c == 0:
		w.fail(sim.Once, p.node, "work of %s begins under %v, under which work began before", x.name, x.token)
	case c < 0 && !w.profile.beyond:
		w.fail(sim.TokensRise, p.node, "work of %s begins under %v after work under %v", x.name, x.token, x.greatest)
	}
	if !x.view.Admitted {
		w.fail(Admitted, p.node, "work of %s begins in %v, which is not admitted", x.name, x.view.Session)
	}
	if p.unfit != fitting && p.c == nil {
		w.fail(Misfits, p.node, "work of %s begins with a promise of %v and a cover of %v", x.name, p.settings.Promise, p.settings.Cover)
	}
	for _, y := range p.works {
		if y.key == x.key && !y.stopping {
			w.fail(Orders, p.node, "work of %s begins under %v beside that under %v in one process", x.name, x.token, y.token)
		}
	}
}

// judgeExtended checks the keys of a session whose claim has grown.
func (p *process) judgeExtended(v *view) {
	for _, x := range p.works {
		if x.view == v && len(x.running) > 1 {
			p.w.judgeKey(x.key)
		}
	}
}

// judgeTold: work is told to end Drain before its claim does, and work of an older epoch is told at once.
func (p *process) judgeTold() {
	if p.m == nil || len(p.works) == 0 || p.frozen || p.w.over {
		return
	}
	v := p.view
	now := p.reading().Boot
	until := v.Claim.Add(-p.settings.Drain)
	for _, x := range p.works {
		switch {
		case x.stopping:
		case x.view != v && x.view.Session != v.Session:
			p.w.fail(sim.ToldInTime, p.node, "work of %s under %v of %v goes on; the session is %v", x.name, x.token, x.view.Session, v.Session)
		case now >= until:
			p.w.fail(sim.ToldInTime, p.node, "work of %s under %v was not told to end; the claim ends at %v, it is %v, and the drain takes %v",
				x.name, x.token, v.Claim, now, p.settings.Drain)
		case p.m.NextFire() > until:
			p.w.fail(sim.ToldInTime, p.node, "the next Fire is at %v, and the work of %s is to be told by %v", p.m.NextFire(), x.name, until)
		}
	}
}

// judgeSaid: what a member says of its keys is true.
func (p *process) judgeSaid(b batch, m *machine.Message) {
	w := p.w
	has := func(all []machine.Held, x *work) bool {
		for i := range all {
			if all[i].Key == x.name && all[i].Token == x.token {
				return true
			}
		}
		return false
	}
	if m.Type == machine.Report && m.Registry != nil && (!m.Admitted || b.view.Claim <= b.now.Boot) {
		w.fail(Vouched, p.node, "it vouches, admitted %v, its claim until %v; it is %v", m.Admitted, b.view.Claim, b.now.Boot)
	}
	if m.Type == machine.Report && m.Tenure < b.top {
		w.fail(Obeys, p.node, "it reports to T %d, and has seen T %d", m.Tenure, b.top)
	}
	for _, x := range p.works {
		switch m.Type {
		case machine.Released, machine.Ended:
			if has(m.Held, x) {
				w.fail(Joined, p.node, "it says %s of %s under %v, and the work runs", m.Type, x.name, x.token)
			}
		case machine.Goodbye:
			w.fail(Joined, p.node, "it says goodbye, and the work of %s runs", x.name)
		case machine.Report:
			switch {
			case x.view.Session == m.Session && !has(m.Held, x):
				w.fail(Joined, p.node, "its report leaves out %s under %v, which runs", x.name, x.token)
			case x.view.Session != m.Session && !has(m.Overruns, x):
				w.fail(Joined, p.node, "its report leaves out the overrun of %s under %v", x.name, x.token)
			}
		}
	}
}

// judgeGiven checks what a coordinator gives.
func (p *process) judgeGiven(b batch, to machine.Conn, m *machine.Message) {
	w := p.w
	if m.Type == machine.Refuse {
		w.saw(sawRefused)
	}
	if i := slices.IndexFunc(p.accepted, func(k *conn) bool { return k.id == to }); i >= 0 && m.Misfit {
		p.judgeRefused(p.accepted[i].member)
	}
	if m.Type != machine.Assign {
		return
	}
	if !b.proven {
		w.fail(Silent, p.node, "it gives keys though E's Check is not nil")
	}
	for i := range m.Held {
		h := &m.Held[i]
		k := w.byName[h.Key]
		if h.Token.Tenure != b.c.tenure.count || h.Token.N == 0 {
			w.fail(sim.TokensRise, p.node, "it gives %s under %v in tenure %d", h.Key, h.Token, b.c.tenure.count)
		}
		if h.Token.Tenure == k.given.Tenure && h.Token.N < k.given.N {
			w.fail(sim.TokensRise, p.node, "it gives %s under %v after %v", h.Key, h.Token, k.given)
		}
		k.given = greater(k.given, h.Token)
		for _, r := range b.c.reported {
			if len(r.overruns) == 0 || standing(b.c.Sessions(nil), r.session) == nil {
				continue
			}
			for _, o := range r.overruns {
				if o.Key == h.Key && slices.ContainsFunc(k.running, func(x *work) bool { return x.token == o.Token }) {
					w.fail(Covered, p.node, "it gives %s while %v has reported an overrun of it under %v, which runs", h.Key, r.session, o.Token)
				}
			}
		}
	}
}

// judgeRefused: a coordinator refuses the settings of none that may have keys.
func (p *process) judgeRefused(of *process) {
	if of.hasKeys() {
		p.w.fail(Misfits, of.node, "%s refuses it, and its claim goes on until %v", p.node.ID, of.view.Claim)
	}
}

// judgeElected: E elects nobody whose settings a coordinator has just refused.
func (p *process) judgeElected() {
	if least := p.settings.Cover * 8 / 10; p.refused != 0 && p.w.now < p.refused+sim.Time(least) {
		p.w.fail(Misfits, p.node, "E elects it, and its settings were refused %v before", time.Duration(p.w.now-p.refused))
	}
}

// judgeVouched: who may vouch now knows every session that is admitted and has a live claim.
func (w *World) judgeVouched() {
	if w.profile.beyond {
		return
	}
	var admitted []machine.Session
	for _, n := range w.nodes {
		if p := n.p; p != nil && p.m != nil {
			if v := p.m.View(); v.Admitted && v.Proven(p.reading()) {
				admitted = append(admitted, v.Session)
			}
		}
	}
	for _, n := range w.nodes {
		p := n.p
		if p == nil || p.m == nil {
			continue
		}
		now := p.reading()
		r := p.m.Vouches(now.Boot)
		if v := p.m.View(); r == nil || now.Jumped(v.Read) {
			continue
		}
		for _, s := range admitted {
			if _, ok := slices.BinarySearchFunc(r.Sessions, s, machine.Session.Compare); !ok {
				w.fail(Vouched, n, "it may vouch for version %d of T %d, %v, which lacks %v", r.Version, r.Tenure, r.Sessions, s)
			}
		}
	}
}

// judgeLive ends a run whose keys are all led again, and fails it when that takes too long. Members that nothing keeps
// away are to be admitted as well.
func (w *World) judgeLive() {
	if w.over {
		return
	}
	what := w.missing()
	took := time.Duration(w.now - w.healed)
	if what == "" {
		w.stats.Runs++
		w.stats.Settled = append(w.stats.Settled, took)
		w.tell(nil, "all is well %v after the faults", took)
		w.over = true
		return
	}
	if took > w.longest() {
		w.fail(sim.Live, nil, "%v after the faults %s", took, what)
		return
	}
	w.in(20*time.Millisecond, w.judgeLive)
}

// missing says what is not in order, "" if nothing.
func (w *World) missing() string {
	if w.e.tenure == nil {
		return "nobody leads E"
	}
	for _, k := range w.keys {
		wanted := false
		for _, n := range w.nodes {
			wanted = wanted || n.p != nil && n.p.m != nil && !n.p.leaving && n.p.wants[k.name]
		}
		if wanted && !k.led() {
			return "nobody leads " + string(k.name)
		}
	}
	for _, n := range w.nodes {
		if p := n.p; p != nil && p.m != nil && !p.leaving {
			if v := p.m.View(); !v.Admitted || !v.Proven(p.reading()) {
				return "the member of " + string(n.ID) + " is not admitted"
			}
		}
	}
	if c := w.e.tenure.p.c; c != nil && c.planner != nil {
		return c.planner.restless()
	}
	return ""
}
