package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/electd/elect/cmd/elect/internal/cluster"
	"github.com/electd/elect/cmd/elect/internal/localpeers"
	"github.com/electd/elect/cmd/elect/internal/probe"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/peer"
)

const (
	// look is the interval between two checks of an election that is coming to rest.
	look = 10 * time.Millisecond

	// frozenOn is how long a frozen leader runs after SIGCONT, before it is asked what it believed.
	frozenOn = 50 * time.Millisecond

	// mostLost is how many nodes of an election may end by themselves.
	mostLost = 20
)

// election is the nodes of one election.
type election struct {
	cfg     *PeersConfig
	mode    mode
	name    string
	local   *localpeers.Peers
	client  *peer.Client
	plan    peer.Plan
	command []string // of elect run
	cluster *cluster.Cluster
	events  chan event
	broken  chan error

	members   map[string]*member // those that should be alive, by id
	all       []*member
	leader    *member
	pid       int              // of the process that leads: the command, or the program
	token     fence.Token      // of the newest leader
	handed    [2]time.Duration // from just before the latest strike until all nodes may know the next leader
	successor string           // the node to which the leader was last asked to hand over
	bound     time.Duration    // until when an earlier life of the node that was last started may bind others

	lost    int // nodes that ended by themselves
	strayed int // transfers after which another node than the named one led
	// for the latest rolling restart: there was no leader, as observers saw it, and no transfer was under way
	beyond time.Duration

	lives      []life
	violations []string
}

func newElection(cfg *PeersConfig, m mode, dir string) (*election, error) {
	s := &election{
		cfg: cfg, mode: m, name: "bench-" + string(m),
		cluster: &cluster.Cluster{Program: cfg.Program},
		events:  make(chan event, 1024),
		broken:  make(chan error, 64),
		members: map[string]*member{},
	}
	var err error
	if s.command, err = stamp.BuildLast(dir); err != nil {
		return nil, err
	}
	if s.local, err = localpeers.New(localpeers.Config{Dir: dir, Profile: cfg.Profile, Voters: cfg.Peers, Cables: m == cabled}); err != nil {
		return nil, err
	}
	voters, at, err := s.local.Config()
	if err == nil {
		s.plan, err = at.Plan(voters)
	}
	if err == nil {
		s.client, err = peer.NewClient(voters, s.name, at)
	}
	if err != nil {
		return nil, errors.Join(err, s.local.Close())
	}
	return s, nil
}

// begin starts all nodes and waits until one leads.
func (s *election) begin(ctx context.Context) error {
	for _, id := range s.local.Voters() {
		if _, err := s.start(id); err != nil {
			return err
		}
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	e, err := s.await(ctx, "somebody leads", func(e event) bool { return e.Event == probe.Active })
	if err != nil {
		return err
	}
	s.leader, s.pid = e.from, e.PID
	return nil
}

func (s *election) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, peersTimeout+2*s.plan.WorstTakeover, errors.New("the round has taken too long"))
}

// round brings the leader down once, and returns how long it took until another had taken over. Afterwards all nodes
// are alive and connected again.
func (s *election) round(ctx context.Context, k Kill) (took time.Duration, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	work, err := s.rest(ctx)
	if err != nil {
		return 0, err
	}
	defer work.close()
	old := s.leader
	old.ended = 0
	watched := k == Freeze || k == Cut
	if watched {
		if err := old.order(probe.Watch); err != nil {
			return 0, err
		}
		if _, err := s.await(ctx, "the leader watches itself", func(e event) bool { return e.from == old && e.Event == probe.Watching }); err != nil {
			return 0, err
		}
	}
	before := now()
	struck := before
	if err := s.strike(ctx, k, work); err != nil {
		return 0, err
	}
	switch k {
	case Elected, Guarded, Parent:
		s.bury(old)
	}
	want := probe.Active
	if s.mode == tokens {
		want = probe.Elected
	}
	last := s.pid
	next, err := s.await(ctx, "another leads", func(e event) bool { return e.Event == want && e.PID != last })
	if err != nil {
		return 0, err
	}
	switch k {
	case Transfer:
		if err := s.lastWord(ctx, old); err != nil {
			return 0, err
		}
		before = time.Duration(old.ended)
		if s.successor != next.from.id {
			s.strayed++
		}
	case Graceful, Yielded:
		if err := s.lastWord(ctx, old); err != nil {
			return 0, err
		}
		before = time.Duration(old.ended)
	}
	if s.mode != tokens && !watched && k != Graceful && work.alive() {
		s.violations = append(s.violations, fmt.Sprintf("process %d led when process %d of %s had become active %v before", last, next.PID, next.from.id, now()-time.Duration(next.At)))
	}
	took = time.Duration(next.At) - before
	if took < 0 {
		s.violations = append(s.violations, fmt.Sprintf("process %d of %s ran %v before the work of %s had ended", next.PID, next.from.id, -took, old.id))
	}
	s.handed = [2]time.Duration{struck, time.Duration(next.At) + s.plan.Heartbeat}
	if err := s.mend(ctx, k, old, work); err != nil {
		return 0, err
	}
	s.leader, s.pid = next.from, next.PID
	return took, nil
}

// strike brings the leader down.
func (s *election) strike(ctx context.Context, k Kill, work handle) error {
	switch k {
	case Elected, Guarded, Child:
		return work.signal(unix.SIGKILL)
	case Parent:
		return s.leader.cand.Signal(unix.SIGKILL)
	case Graceful, Yielded:
		return s.leader.order(probe.Resign)
	case Transfer:
		s.successor = s.other(s.leader.id)
		return s.client.Transfer(ctx, 0, s.successor)
	case Resign:
		return s.client.Resign(ctx, 0)
	case Freeze:
		return work.signal(unix.SIGSTOP)
	case Cut:
		s.local.Cut(s.leader.id)
		return nil
	}
	return fmt.Errorf("%q is no way to bring a leader down", k)
}

// mend restores what was brought down, and waits for the old leader's last reports.
func (s *election) mend(ctx context.Context, k Kill, old *member, work handle) error {
	switch k {
	case Elected, Guarded, Parent:
		return s.again(ctx, old)
	case Freeze, Cut:
		if k == Freeze {
			if err := sleep(ctx, frozenOn); err != nil {
				return err
			}
			if err := work.signal(unix.SIGCONT); err != nil {
				return err
			}
		}
		if err := s.lastWord(ctx, old); err != nil {
			return err
		}
		if k == Cut {
			s.local.Heal(old.id)
		}
		return old.order(probe.Rest)
	}
	return nil
}

// lastWord waits until the old leader has reported when its work ended, and so what it believed until then. It may
// have done so before another led.
func (s *election) lastWord(ctx context.Context, old *member) error {
	if old.ended != 0 {
		return nil
	}
	_, err := s.await(ctx, "the old leader says what it believed", func(event) bool { return old.ended != 0 })
	return err
}

// again restarts a node that has ended, or is about to.
func (s *election) again(ctx context.Context, old *member) error {
	s.bury(old)
	select {
	case <-old.over: // its keeper has ended too, and so the data directory is free
	case <-ctx.Done():
		return fmt.Errorf("%s was killed, and something of it lives: %w", old.id, context.Cause(ctx))
	}
	_ = old.stdin.Close()
	_, err := s.start(old.id)
	s.bound = now() + s.plan.Promise + s.plan.Promise/10
	return err
}

// revive restarts nodes that have ended between two rounds. On a busy machine a guardian kills its program, because
// it could not be told in time that the lease continues.
func (s *election) revive(ctx context.Context) error {
	for _, m := range s.members {
		select {
		case <-m.cand.Done():
		default:
			continue
		}
		s.lost++
		if s.lost > mostLost {
			return fmt.Errorf("%d nodes have ended by themselves; %s", s.lost, s.lastWords())
		}
		if err := s.again(ctx, m); err != nil {
			return err
		}
		return sleep(ctx, s.bound-now())
	}
	return nil
}

// bury records that a member was killed: it will report nothing more.
func (s *election) bury(m *member) {
	delete(s.members, m.id)
	for i := range s.lives {
		if l := &s.lives[i]; l.who == m.id && l.to == 0 {
			l.killed = true
		}
	}
}

// await takes events until one matches.
func (s *election) await(ctx context.Context, what string, meant func(event) bool) (event, error) {
	for {
		select {
		case e := <-s.events:
			s.note(e)
			if meant(e) {
				return e, nil
			}
		case err := <-s.broken:
			return event{}, err
		case <-ctx.Done():
			return event{}, fmt.Errorf("waiting until %s: %w; %s", what, context.Cause(ctx), s.lastWords())
		case <-s.deadMember():
			return event{}, fmt.Errorf("waiting until %s: a node has ended; %s", what, s.lastWords())
		}
	}
}

// deadMember is closed when a member that should be alive has ended.
func (s *election) deadMember() <-chan struct{} {
	for _, m := range s.members {
		select {
		case <-m.cand.Done():
			return m.cand.Done()
		default:
		}
	}
	return nil
}

func (s *election) lastWords() string {
	var text strings.Builder
	for _, id := range s.local.Voters() {
		if m := s.members[id]; m != nil {
			fmt.Fprintf(&text, "%s said last: %q; ", id, m.cand.Lines(3))
		}
	}
	return text.String()
}

// note records what each member believed.
func (s *election) note(e event) {
	switch e.Event {
	case probe.Elected, probe.Active:
		if e.Token == 0 {
			break // for a command's stamp rest asks for the token
		}
		if e.Event == probe.Active {
			s.lives = append(s.lives, life{who: e.from.id, token: e.Token, from: e.At})
		}
		if e.Token < s.token || e.Token == s.token && e.Event == probe.Elected {
			s.violations = append(s.violations, fmt.Sprintf("%s was %s with token %v after token %v", e.from.id, e.Event, e.Token, s.token))
		}
		s.token = max(s.token, e.Token)
	case probe.Believed, probe.Ended:
		if e.Event == probe.Ended {
			e.from.ended = e.At
		}
		for i := range s.lives {
			if l := &s.lives[i]; l.who == e.from.id && l.token == e.Token && e.To != 0 {
				l.to = max(l.to, e.To)
			}
		}
	}
}

// rest waits until the election is idle: all nodes are connected, there is one leader, whose lease is proven and
// whose heartbeats all have heard, and no voter is bound by its earlier life. Nearly all real failures meet an idle
// election.
//
// On a busy machine the leader may change meanwhile; then it waits again. It returns the process that leads.
func (s *election) rest(ctx context.Context) (handle, error) {
	if err := sleep(ctx, s.bound-now()); err != nil {
		return -1, err
	}
	unrest := errors.New("nothing is known")
	for {
		leader, err := localpeers.Unready(s.client.Statuses(ctx))
		if err == nil {
			err = fmt.Errorf("%s leads with token %v, and its report is missing", leader.ID, leader.Token)
		}
		if ctx.Err() == nil {
			unrest = err
		}
		if leader != nil && s.leads(leader) {
			if err := sleep(ctx, max(settleTime, 3*s.plan.Heartbeat)); err != nil {
				return -1, err
			}
			if work, err := grasp(s.pid); err == nil && s.leads(leader) {
				return work, nil
			} else if err == nil {
				work.close()
			}
		}
		if err := s.revive(ctx); err != nil {
			return -1, err
		}
		if cause := sleep(ctx, look); cause != nil {
			return -1, fmt.Errorf("the election does not come to rest: %w; %w; %s", cause, unrest, s.lastWords())
		}
	}
}

// leads records the leader that the nodes see, after everything written before was read.
func (s *election) leads(leader *driver.Leader) bool {
	for {
		select {
		case e := <-s.events:
			s.note(e)
			if e.Event == probe.Active {
				s.leader, s.pid = e.from, e.PID
			}
			continue
		default:
		}
		break
	}
	m := s.members[leader.ID]
	if m == nil || m != s.leader {
		return false // its report is on the way
	}
	if s.mode == commands && leader.Token != s.token {
		if leader.Token < s.token {
			s.violations = append(s.violations, fmt.Sprintf("%s leads with token %v after token %v", leader.ID, leader.Token, s.token))
		}
		s.token = leader.Token
	}
	return leader.Token == s.token
}

// close ends all nodes, and returns an error if a process of theirs is left.
func (s *election) close() error {
	s.cluster.Close()
	late := time.After(peersTimeout)
	var errs []error
	for _, m := range s.all {
		_ = m.stdin.Close()
		for over := false; !over; {
			select {
			case <-m.over:
				over = true
			case <-s.events:
			case <-late:
				errs = append(errs, fmt.Errorf("something of %s still lives %v after it was ended", m.id, peersTimeout))
				over, late = true, time.After(0)
			}
		}
	}
	errs = append(errs, s.client.Close(), s.local.Close())
	return errors.Join(errs...)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
