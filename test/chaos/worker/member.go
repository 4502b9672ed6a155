//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/group"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

const (
	leaving = 20 * time.Second // for all keys to be given up
	winding = 30               // milliseconds that work takes to return, at most: less than any drain
	dying   = time.Millisecond // how long after the beginning of a write a member dies that is told to, at most
)

// told is one event of a group, as a member records it.
type told struct {
	At     int64        `json:"at"`
	Kind   string       `json:"kind"`
	Node   int64        `json:"node"`
	Key    string       `json:"key,omitempty"`
	Token  elect.Token  `json:"token,omitempty"`
	Member string       `json:"member,omitempty"`
	Reason elect.Reason `json:"reason,omitempty"`
	Why    string       `json:"why,omitempty"`
}

// holder is a member of a group with the keys that it works on.
type holder struct {
	surroundings
	ledger *lives.Ledger
	client *register.Client
	name   string

	life   lives.Life // what all of them have
	shared board      // with the child of a guarded member; nil without

	writing sync.Mutex // of client
	written int
	dies    atomic.Bool // at the next write

	mu   sync.Mutex
	held []*holding
}

// holding is the work on one key, guarded by the lock of its holder.
type holding struct {
	term  term
	key   int64
	slot  *lives.Slot // nil before the first proof
	until int64       // the end of the last claim that was proven: while the work has not returned, nobody else may have the key
}

// term is that of a shard, or of a named election.
type term interface {
	Check() error
	Token() elect.Token
	Remaining() time.Duration
}

type named struct{ *elect.Term }

func (n named) Remaining() time.Duration { left, _ := n.Term.Remaining(); return left }

// member works on the keys that it gets until it is told to end.
func member(s surroundings, args []string) error {
	var at place
	set := flag.NewFlagSet("worker member", flag.ContinueOnError)
	at.flags(set)
	set.StringVar(&at.id, "id", "", "which member this is")
	listen := set.String("listen", "", "where it listens as coordinator; none among peers")
	advertise := set.String("advertise", "", "where the others reach that")
	keys := set.Int("keys", 0, "how many keys there are")
	elections := set.Int("elections", 0, "how many of them, the last ones, are named elections")
	promise := set.Duration("promise", 0, "that of the group")
	guarded := set.Bool("guardian", false, "be under a keeper, with a child")
	if err := at.parse(set, args); err != nil {
		return err
	}
	if at.id == "" || *keys < 1 || *elections < 0 || *elections >= *keys || set.NArg() > 0 {
		return usagef("want --id, --keys, fewer --elections than these, and no arguments beside the flags; have %q", set.Args())
	}
	if err := mutation.Check(); err != nil {
		return usagef("%w", err)
	}
	log := newLog(s)
	h := &holder{surroundings: s, life: lives.Life{Node: s.node, Kind: lives.Library}}
	var guardian elect.Guardian // nil is none
	if *guarded {
		g, err := supervise.Guard(supervise.GuardConfig{Grace: leaving + 10*time.Second, Logger: log})
		if err != nil {
			return err
		}
		guardian, log = g, newLog(s)
		h.life.Kind, h.life.Keeper = lives.Guarded, int64(os.Getppid())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Println("catches", os.Getpid(), os.Getppid()) // signals; the second is its keeper, if it has one
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.name = register.Name(s.name(at.id))
	var err error
	if h.ledger, err = s.ledger(); err != nil {
		return err
	}
	if h.client, err = register.Open(s.dir, h.name); err != nil {
		return err
	}
	if *guarded {
		if h.shared, err = bear(*keys); err != nil {
			return err
		}
	}
	go func() {
		if err := s.gone(ctx); err != nil {
			cancel(&fault{codeWorker, err})
		}
	}()
	events, err := h.record()
	if err != nil {
		return err
	}
	election, err := openers().Open(ctx, at.election, at.name, elect.Config{ID: at.id, Logger: log})
	if err != nil {
		return ended(ctx, err)
	}
	g, err := group.Join(ctx, election, group.Config{
		Placement: func() (placement.Placer, error) { return placement.New(placement.Settings{Quiet: *promise / 2}) }, // the load is evened out in the midst of a storm
		Name:      at.name, ID: at.id, Keys: group.Range(*keys - *elections), Promise: *promise, Listen: *listen, Advertise: *advertise, Logger: log, OnEvent: events,
		Guardian: guardian,
	})
	if err != nil {
		return errors.Join(err, election.Close())
	}
	go h.stamp()
	go h.writes()
	go h.obey(ctx, g, *keys-*elections, log.Error)
	ran := make(chan error, 1)
	go func() {
		ran <- g.Run(context.WithoutCancel(ctx), func(ctx context.Context, shard *group.Shard) error {
			key, err := strconv.ParseInt(shard.Key(), 10, 64)
			if err == nil {
				h.work(ctx, key, shard)
			}
			return err
		})
	}()
	var leads sync.WaitGroup
	for key := *keys - *elections; key < *keys; key++ {
		e, err := elect.New(g.Elector(electionName(key)), elect.Config{Guardian: guardian, Logger: log})
		if err != nil {
			return &fault{codeElection, err}
		}
		leads.Go(func() {
			err := e.Lead(ctx, func(ctx context.Context, t *elect.Term) error {
				h.work(ctx, int64(key), named{t})
				return nil
			})
			if ctx.Err() == nil {
				cancel(&fault{codeElection, fmt.Errorf("election %d: %w", key, err)})
			}
		})
	}
	select {
	case err := <-ran:
		return &fault{codeElection, errors.Join(err, g.Close())}
	case <-ctx.Done():
	}
	leads.Wait()
	last, done := context.WithTimeout(context.Background(), leaving)
	defer done()
	if err := g.Leave(last, 0); err != nil {
		log.Warn("this member has not left in good order", "error", err)
	}
	return ended(ctx, nil)
}

// record returns what writes events down. That of the coordinator also goes to the output, for the harness.
func (h *holder) record() (func(group.Event), error) {
	dir := filepath.Join(h.dir, "events")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, h.name+".ndjson"), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return func(e group.Event) {
		t := told{At: h.ledger.Now(), Kind: string(e.Kind), Node: h.node, Key: e.Key, Token: e.Token, Member: e.Member}
		if e.Err != nil {
			t.Why = e.Err.Error()
		}
		lost, is := errors.AsType[*elect.LostError](e.Err)
		if is {
			t.Reason = lost.Reason
		}
		switch e.Kind {
		case group.EventBegan, group.EventReleased: // lives say it
			return
		case group.EventEnded:
			if t.Reason == elect.ReasonResigned || t.Reason == elect.ReasonShutdown {
				return
			}
		case group.EventCoordinates, group.EventStoodDown:
			fmt.Println(e.Kind)
		}
		line, err := json.Marshal(t)
		if err == nil {
			_, err = f.Write(append(line, '\n'))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "worker: an event is not recorded:", err)
		}
	}, nil
}

func electionName(key int) string { return "election-" + strconv.Itoa(key) }

// work holds one key. It writes once more after it was told to stop, unproven, as work does that winds up.
func (h *holder) work(ctx context.Context, key int64, t term) {
	w := &holding{term: t, key: key}
	h.mu.Lock()
	h.held = append(h.held, w)
	h.mu.Unlock()
	h.write(w)
	<-ctx.Done()
	<-time.After(time.Duration(rand.IntN(winding)) * time.Millisecond)
	h.write(w)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shared.clear(key)
	for i := range h.held {
		if h.held[i] == w {
			last := len(h.held) - 1
			h.held[i], h.held[last] = h.held[last], nil
			h.held = h.held[:last]
			break
		}
	}
}

// stamp stamps the lives of all keys, each millisecond. A life goes on until its work has returned or the last proven
// claim is over, whichever is first.
func (h *holder) stamp() {
	onTime()
	for {
		h.mu.Lock()
		for _, w := range h.held {
			h.prove(w)
		}
		h.mu.Unlock()
		nap(look)
	}
}

func (h *holder) prove(w *holding) {
	at := h.ledger.Now()
	switch {
	case w.term.Check() == nil:
		if w.slot == nil {
			life := h.life
			life.Token, life.Key, life.Start = int64(w.term.Token()), w.key, h.ledger.Now()
			w.slot = h.ledger.Begin(life)
		}
		w.slot.StampAt(0, at)
		if left := w.term.Remaining(); left > 0 {
			w.until = at + int64(left)
			h.shared.set(w.key, w.slot.Number(), w.until)
		}
	case w.slot != nil && at < w.until:
		w.slot.StampAt(0, at)
	}
}

// writes writes to the registers of all keys by turns. It dies in the middle of a write when it is told to.
func (h *holder) writes() {
	for i := 0; ; i++ {
		nap(time.Second / time.Duration(h.rate))
		h.mu.Lock()
		var w *holding
		if len(h.held) > 0 {
			w = h.held[i%len(h.held)]
		}
		h.mu.Unlock()
		dies := h.dies.Load()
		if dies {
			time.AfterFunc(rand.N(dying), func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
		if w != nil && (dies || w.term.Check() == nil) {
			h.write(w)
		}
	}
}

func (h *holder) write(w *holding) {
	h.writing.Lock()
	defer h.writing.Unlock()
	h.written++
	_, _ = h.client.WriteKey(context.Background(), w.key, w.term.Token(), fmt.Sprintf("%s/%d", h.name, h.written)) // it is recorded
}

// obey does what the lines of the input say.
func (h *holder) obey(ctx context.Context, g *group.Group, shards int, complain func(string, ...any)) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		line := lines.Text()
		words := strings.Fields(line)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, leaving)
			defer cancel()
			switch {
			case len(words) > 2 && words[0] == "move":
				for _, key := range words[2:] {
					if n, _ := strconv.Atoi(key); n >= shards {
						key = electionName(n)
					}
					_ = g.Move(ctx, key, words[1]) // what cannot be moved now stays
				}
			case len(words) == 3 && words[0] == "drain":
				if err := g.Drain(ctx, words[1], words[2] == "true"); err != nil {
					complain("a drain failed", "member", words[1], "on", words[2], "error", err)
				}
			case line == "die":
				h.dies.Store(true)
			default:
				complain("want move, drain or die", "line", line)
			}
		}()
	}
}
