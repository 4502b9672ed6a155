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
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/group"
	"github.com/electd/elect/group/placement"
	"github.com/electd/elect/internal/mutation"
	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/register"
)

const (
	leaving = 20 * time.Second // for all keys to be given up
	winding = 30               // milliseconds that work takes to return, at most: less than any drain
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

	writing sync.Mutex // of client
	written int

	mu   sync.Mutex
	held []*holding
}

// holding is the work on one key, guarded by the lock of its holder.
type holding struct {
	shard *group.Shard
	key   int64
	slot  *lives.Slot // nil before the first proof
	until int64       // the end of the last claim that was proven: while the work has not returned, nobody else may have the key
}

// member works on the keys that it gets until it is told to end.
func member(s surroundings, args []string) error {
	var at place
	set := flag.NewFlagSet("worker member", flag.ContinueOnError)
	at.flags(set)
	set.StringVar(&at.id, "id", "", "which member this is")
	listen := set.String("listen", "", "where it listens as coordinator; none among peers")
	advertise := set.String("advertise", "", "where the others reach that")
	keys := set.Int("keys", 0, "how many keys there are")
	promise := set.Duration("promise", 0, "that of the group")
	if err := at.parse(set, args); err != nil {
		return err
	}
	if at.id == "" || *keys < 1 || set.NArg() > 0 {
		return usagef("want --id and --keys, and no arguments beside the flags; have %q", set.Args())
	}
	if err := mutation.Check(); err != nil {
		return usagef("%w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Println("catches signals")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := &holder{surroundings: s, name: register.Name(s.name(at.id))}
	var err error
	if h.ledger, err = s.ledger(); err != nil {
		return err
	}
	if h.client, err = register.Open(s.dir, h.name); err != nil {
		return err
	}
	log := newLog(s)
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
		Name:      at.name, ID: at.id, Keys: group.Range(*keys), Promise: *promise, Listen: *listen, Advertise: *advertise, Logger: log, OnEvent: events,
	})
	if err != nil {
		return errors.Join(err, election.Close())
	}
	go h.stamp()
	go h.writes()
	go obey(ctx, g, log.Error)
	ran := make(chan error, 1)
	go func() { ran <- g.Run(context.WithoutCancel(ctx), h.work) }()
	select {
	case err := <-ran:
		return &fault{codeElection, errors.Join(err, g.Close())}
	case <-ctx.Done():
	}
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

// work holds one key. It writes once more after it was told to stop, unproven, as work does that winds up.
func (h *holder) work(ctx context.Context, shard *group.Shard) error {
	key, err := strconv.ParseInt(shard.Key(), 10, 64)
	if err != nil {
		return err
	}
	w := &holding{shard: shard, key: key}
	h.mu.Lock()
	h.held = append(h.held, w)
	h.mu.Unlock()
	h.write(w)
	<-ctx.Done()
	<-time.After(time.Duration(rand.IntN(winding)) * time.Millisecond)
	h.write(w)
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.held {
		if h.held[i] == w {
			last := len(h.held) - 1
			h.held[i], h.held[last] = h.held[last], nil
			h.held = h.held[:last]
			break
		}
	}
	return nil
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
	case w.shard.Check() == nil:
		if w.slot == nil {
			w.slot = h.ledger.Begin(lives.Life{Token: int64(w.shard.Token()), Node: h.node, Kind: lives.Library, Key: w.key, Start: h.ledger.Now()})
		}
		w.slot.StampAt(0, at)
		if left := w.shard.Remaining(); left > 0 {
			w.until = at + int64(left)
		}
	case w.slot != nil && at < w.until:
		w.slot.StampAt(0, at)
	}
}

// writes writes to the registers of all keys by turns.
func (h *holder) writes() {
	for i := 0; ; i++ {
		nap(time.Second / time.Duration(h.rate))
		h.mu.Lock()
		var w *holding
		if len(h.held) > 0 {
			w = h.held[i%len(h.held)]
		}
		h.mu.Unlock()
		if w != nil && w.shard.Check() == nil {
			h.write(w)
		}
	}
}

func (h *holder) write(w *holding) {
	h.writing.Lock()
	defer h.writing.Unlock()
	h.written++
	_, _ = h.client.WriteKey(context.Background(), w.key, w.shard.Token(), fmt.Sprintf("%s/%d", h.name, h.written)) // it is recorded
}

// obey does what the lines of the input say.
func obey(ctx context.Context, g *group.Group, complain func(string, ...any)) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		line := lines.Text()
		words := strings.Fields(line)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, leaving)
			defer cancel()
			switch {
			case len(words) > 2 && words[0] == "move":
				for _, key := range words[2:] {
					_ = g.Move(ctx, key, words[1]) // what cannot be moved now stays
				}
			case len(words) == 3 && words[0] == "drain":
				if err := g.Drain(ctx, words[1], words[2] == "true"); err != nil {
					complain("a drain failed", "member", words[1], "on", words[2], "error", err)
				}
			default:
				complain("want move or drain", "line", line)
			}
		}()
	}
}
