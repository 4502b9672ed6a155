package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/internal/place"
)

// Hooks are commands at the steps of a term, in their order. One without a Run is none.
//
// A hook is a family with a keeper of its own, killed when its limit is over, and with this process. Until the end of
// the term it is under the mandate: it is dead before the lease ends, and before the lock is free.
type Hooks struct {
	Fence    Hook // after the victory; a failure gives leadership back
	Activate Hook // before the command starts; so does its failure, after Demote
	Elected  Hook // when this leader is active; nothing waits for it
	Cut      Hook // when the term has ended, before the command is stopped
	Demote   Hook // when the command is dead, before the lease ends. This candidate does not stand before it has succeeded
	Lost     Hook // after that; nothing waits for it
}

// Hook is a command.
type Hook struct {
	Run     string        // for sh -c
	Path    string        // instead: a program, which reads Input
	Input   string        // at most maxInput bytes
	Limit   time.Duration // after which it is killed; above 0
	Retries int           // after a failure, at once
}

// errUnclean ends a Lead whose term was not demoted.
var errUnclean = errors.New("the last term was not demoted")

// The pauses before a demotion that fails is tried again outside a term.
const (
	firstDemotion   = time.Second
	longestDemotion = 30 * time.Second
)

// steps is what hooks have done in the present term. The zero value is ready.
type steps struct {
	entered bool // begin has succeeded with the hook fence
	record  bool // the record of an activation is there
	cutting sync.Once
	sudden  atomic.Bool    // the term is lost, and what is left of its lease is not renewed
	beside  sync.WaitGroup // the hook on-elected
	stop    context.CancelFunc
	after   sync.WaitGroup // on-lost, of all terms

	previous previous // leaders, for the hook fence and STONITH
}

// watch keeps the previous leaders, for the hook fence. The function that it returns ends that, and joins what was
// started beside the terms.
func (s *steps) watch(r *run) (done func()) {
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	if r.cfg.Hooks.Fence.Run != "" || r.cfg.Stonith != nil {
		text, _ := readKept(r.cfg.State, r.leaderFile()) // without it the previous leader is not known
		s.previous.parse(text)
		watching.Go(func() { r.watchPrevious(ctx) })
	}
	return func() {
		stop()
		watching.Wait()
		s.after.Wait()
	}
}

// begin does what comes before the command. After false the term's context has ended.
func (s *steps) begin(r *run, ctx context.Context, term *elect.Term) bool {
	h := &r.cfg.Hooks
	s.entered, s.cutting, s.stop = false, sync.Once{}, func() {}
	s.sudden.Store(false)
	r.starting(true)
	if !s.fence(r, ctx, term) {
		return false
	}
	s.entered = true
	if s.activates(r) {
		if r.cfg.Device != nil {
			if err := r.cfg.Device.Arm(r.cfg.Name, r.mandate.Remaining); err != nil {
				s.refuse(r, ctx, term, "activate", err)
				return false
			}
		}
		if err := s.write(r, term.Token()); err != nil {
			if r.cfg.Device != nil {
				_ = r.cfg.Device.Disarm(r.cfg.Name) // it was just armed
			}
			term.GiveWay(fmt.Errorf("it cannot be kept that this term was activated: %w", err))
			return false
		}
		s.record = true
		if h.Activate.Run != "" {
			if err := r.hook(ctx, "activate", h.Activate, term.Token(), true); err != nil {
				s.refuse(r, ctx, term, "activate", err)
				return false
			}
		}
	}
	return ctx.Err() == nil
}

// fence makes sure that the previous leaders do nothing more, the oldest first, and tells the others so. After false the
// term's context has ended.
func (s *steps) fence(r *run, ctx context.Context, term *elect.Term) bool {
	h := r.cfg.Hooks.Fence
	if h.Run == "" && r.cfg.Stonith == nil {
		return true
	}
	all := s.previous.leaders()
	for _, of := range all {
		if r.cfg.Stonith == nil {
			break
		}
		if err := s.isolate(r, ctx, term, of); err != nil {
			s.refuse(r, ctx, term, "stonith", err)
			return false
		}
	}
	if len(all) == 0 {
		all = []predecessor{{}}
	}
	for _, of := range all {
		if h.Run == "" {
			break
		}
		env := []string{"ELECT_PREVIOUS_ID=" + of.id, "ELECT_PREVIOUS_TOKEN="}
		if of.id != "" {
			env[1] += of.token.String()
		}
		if err := r.hook(ctx, "fence", h, term.Token(), true, env...); err != nil {
			s.refuse(r, ctx, term, "fence", err)
			return false
		}
	}
	s.previous.areFenced(all)
	r.keepPrevious()
	telling, stop := context.WithTimeout(ctx, tellTime)
	defer stop()
	if err := term.SetMetadata(telling, r.metadata(false)); err != nil && ctx.Err() == nil && !errors.Is(err, elect.ErrUnsupported) {
		r.log().Info("observers are not told who was fenced, and may fence once more", "error", err)
	}
	return ctx.Err() == nil
}

// tellTime is how long a leader waits for its back end to show that it has fenced.
const tellTime = time.Second

// refuse gives leadership back after a hook that has failed, unless it has ended already.
func (s *steps) refuse(r *run, ctx context.Context, term *elect.Term, name string, err error) {
	if ctx.Err() == nil {
		term.GiveWay(fmt.Errorf("the hook %s has failed: %w", name, err))
	}
}

func (s *steps) activates(r *run) bool {
	return r.cfg.Hooks.Activate.Run != "" || r.cfg.Hooks.Demote.Run != ""
}

// active does what follows when the command runs.
func (s *steps) active(r *run, ctx context.Context, term *elect.Term) {
	if r.cfg.WaitReady == 0 {
		r.starting(false)
	}
	if r.cfg.Hooks.Elected.Run == "" {
		return
	}
	beside, stop := context.WithCancel(ctx)
	s.stop = stop
	s.beside.Go(func() { _ = r.hook(beside, "on-elected", r.cfg.Hooks.Elected, term.Token(), true) })
}

// cut takes traffic away: /leader has been 503 since the end of ctx.
func (s *steps) cut(r *run, ctx context.Context, term *elect.Term) {
	s.cutting.Do(func() {
		s.sudden.Store(suddenly(ctx))
		h := r.cfg.Hooks.Cut
		if h.Run == "" || !s.entered {
			return
		}
		if left, bounded := r.mandate.Remaining(); bounded && r.mandate.Exclusive {
			h.Limit = max(min(h.Limit, left/3), time.Millisecond)
		}
		_ = r.hook(context.Background(), cut, h, term.Token(), true, s.reason(ctx))
	})
}

// end does what comes after the command: it has ended, and everything that it has started.
func (s *steps) end(r *run, ctx context.Context, term *elect.Term) {
	h := &r.cfg.Hooks
	if *h == (Hooks{}) && r.cfg.Stonith == nil {
		return
	}
	term.Resign() // if the command has ended by itself: no traffic from now on
	s.stop()
	s.cut(r, ctx, term)
	s.beside.Wait()
	if s.record {
		if err := s.demote(r, term.Token(), true, s.reason(ctx)); err != nil {
			if r.cfg.Device != nil {
				r.cfg.Device.Abandon(r.cfg.Name)
			}
			r.mu.Lock()
			over := r.cancel
			r.mu.Unlock()
			over(errUnclean)
		}
	}
	if h.Lost.Run != "" && s.entered {
		reason, token := s.reason(ctx), term.Token()
		s.after.Go(func() { _ = r.hook(context.Background(), "on-lost", h.Lost, token, false, reason) })
	}
}

// reason is the variable with the reason of the end of a term.
func (s *steps) reason(ctx context.Context) string {
	loss, ok := errors.AsType[*elect.LostError](context.Cause(ctx))
	if !ok {
		return "ELECT_REASON="
	}
	return "ELECT_REASON=" + string(loss.Reason)
}

// demote undoes an activation. within means that leadership has not been released.
func (s *steps) demote(r *run, token elect.Token, within bool, env ...string) error {
	if h := r.cfg.Hooks.Demote; h.Run != "" {
		if err := r.hook(context.Background(), demote, h, token, within, env...); err != nil {
			return err
		}
	}
	if err := r.cfg.State.Remove(r.record()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.tell(slog.LevelWarn, eventHookFailed, token, "the record of an activation cannot be removed: %v", err)
		return err
	}
	s.record = false
	if r.cfg.Device != nil {
		if err := r.cfg.Device.Disarm(r.cfg.Name); err != nil {
			r.tell(slog.LevelError, eventHookFailed, token, "the watchdog cannot be disarmed, and this machine may be reset: %v", err)
		}
	}
	return nil
}

// activation is what is kept of a term from before its activation until it was demoted: with the hook demote of then,
// because only that undoes what the hook activate of then has done.
type activation struct {
	Token  elect.Token `json:"token"`
	Demote Hook        `json:"demote"`
	Env    []string    `json:"env,omitempty"` // Config.Env
}

// clean demotes what an earlier term, or an earlier life of this candidate, has left activated: as it was to be demoted
// then, and if that fails as it is now. It returns false if this process was told to end first.
func (s *steps) clean(r *run) bool {
	if r.cfg.State == nil {
		return true
	}
	text, err := readKept(r.cfg.State, r.record())
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	of := activation{Demote: r.cfg.Hooks.Demote, Env: r.cfg.Env}
	if err == nil && json.Unmarshal([]byte(text), &of) != nil {
		_ = of.Token.UnmarshalText([]byte(text)) // of an earlier version; 0 is not known
	}
	r.tell(slog.LevelWarn, eventUnclean, of.Token, "the term with token %v was activated and not demoted; it is demoted before this candidate stands", of.Token)
	then := &run{cfg: r.cfg, say: r.say, contain: r.contain}
	then.cfg.Hooks.Demote, then.cfg.Env = of.Demote, of.Env
	then.env = environment(&then.cfg)
	other := !reflect.DeepEqual(of.Demote, r.cfg.Hooks.Demote) || !slices.Equal(of.Env, r.cfg.Env)
	for pause := firstDemotion; ; pause = min(2*pause, longestDemotion) {
		if r.life.Err() != nil {
			return false
		}
		if s.demote(then, of.Token, false, "ELECT_REASON=") == nil || other && s.demote(r, of.Token, false, "ELECT_REASON=") == nil {
			return true
		}
		select {
		case <-time.After(pause):
		case <-r.life.Done():
			return false
		}
	}
}

// activated is the end of the name of the file that says that a term was activated.
const activated = ".active"

func (r *run) record() string { return r.cfg.Name + activated }

// write keeps, durably, that the term is about to be activated.
func (s *steps) write(r *run, token elect.Token) error {
	text, err := json.Marshal(activation{Token: token, Demote: r.cfg.Hooks.Demote, Env: r.cfg.Env})
	if err != nil {
		return err
	}
	return r.cfg.State.Save(r.record(), append(text, '\n'))
}

// readKept reads a file of the state directory.
func readKept(dir *place.Dir, name string) (string, error) {
	text, err := dir.Read(name, 64<<10)
	return strings.TrimSpace(string(text)), err
}
