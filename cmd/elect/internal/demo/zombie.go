package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/fence"
)

// The story's times, a hundredth of those in the text.
const (
	scale     = 100
	taleLease = 300 * time.Millisecond
	talePause = 450 * time.Millisecond
)

// The story's numbers.
const (
	opening    = 100 // initially in the account
	firstPays  = 20
	secondPays = 50
	tokenOfOne = fence.Token(5)
	tokenOfTwo = fence.Token(6)
)

// taleAttempts bounds how often the story begins: a machine that is busy for the length of a lease has another
// election, with other tokens than the textbook.
const taleAttempts = 5

// errAgain is matched by the error of an attempt that was disturbed before anything was shown.
var errAgain = errors.New("another election came in between")

// Zombie plays the textbook's story of fencing tokens, after Kleppmann, "How to do distributed locking" (2016), with
// two candidates of a real election, the first of which is really stopped between its check and its write; and two
// servers, of which one checks tokens. It returns an error if anything went differently. If ctx ends it early it
// returns the cause.
//
// It uses Program, SweepVerb, ClientVerb, StoreVerb, Out and Colour of cfg.
func Zombie(ctx context.Context, cfg Config) (err error) {
	if freeze == resume {
		return errors.New("a process cannot be stopped and continued on this system; see it on a Unix")
	}
	temp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(temp, dirPrefix)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, marker), nil, 0o600); err != nil {
		return errors.Join(err, remove(dir))
	}
	sweeper, err := startSweeper(cfg.Program, cfg.SweepVerb, dir, nil)
	if err != nil {
		return errors.Join(err, remove(dir))
	}
	defer func() { err = errors.Join(err, remove(dir), sweeper.end()) }()
	t := &tale{out: &printer{to: cfg.Out, colour: cfg.Colour}}
	t.prologue()
	for attempt := range taleAttempts {
		if attempt > 0 {
			t.say(warning, "           This machine was too busy (%v). Once more, from the beginning.", err)
			t.out.say()
		}
		if err = t.attempt(ctx, cfg, filepath.Join(dir, fmt.Sprint(attempt))); !errors.Is(err, errAgain) {
			break
		}
	}
	if err == nil {
		t.epilogue()
	}
	return err
}

// tale writes what happens.
type tale struct {
	out   *printer
	begin time.Duration // the begin of the story, on the clock of stamp.Now
}

func (t *tale) say(style style, format string, args ...any) {
	t.out.say(piece{fmt.Sprintf(format, args...), style})
}

// tell writes what happened at a time.
func (t *tale) tell(at time.Duration, style style, format string, args ...any) {
	t.out.say(piece{fmt.Sprintf("second %2d: ", storySeconds(at-t.begin)), faint}, piece{fmt.Sprintf(format, args...), style})
}

// more continues the last line.
func (t *tale) more(style style, format string, args ...any) {
	t.out.say(piece{strings.Repeat(" ", len("second 00: ")) + fmt.Sprintf(format, args...), style})
}

// storySeconds are the seconds in the story for a real time.
func storySeconds(d time.Duration) int { return int((max(d, 0)*scale + time.Second/2) / time.Second) }

func (t *tale) prologue() {
	for _, line := range []string{
		"The usual example for fencing tokens, with real processes:",
		"Kleppmann, \"How to do distributed locking\" (2016).",
		"",
		"Two clients, processes of this machine, take turns to work on an account. An",
		"election among three voters decides which one may: a lease of 30 seconds. Two",
		"servers keep the account: one checks the token of each write, the other",
		"does not. A second of the story is a hundredth of yours.",
		"",
	} {
		t.say(normal, "%s", line)
	}
}

// attempt plays once.
func (t *tale) attempt(ctx context.Context, cfg Config, dir string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, taleLimit, fmt.Errorf("the story has not come to its end within %v", taleLimit))
	defer cancel()
	c, err := openCast(ctx, cfg, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	one, two := c.clients[0], c.clients[1]
	for token := fence.Token(1); token < tokenOfOne; token++ { // the earlier leaders
		if err := c.elect(ctx, c.clients[(token-1)%2], token, true); err != nil {
			return err
		}
	}
	if err := c.elect(ctx, one, tokenOfOne, false); err != nil {
		return err
	}
	t.begin = stamp.Now()
	t.say(normal, "earlier:   Four leaders have come and gone, with the tokens 1, 2, 3 and 4. Each has")
	t.more(normal, "a greater token than all before it.")
	t.tell(t.begin, leading, "Client 1 is elected: token 5. Its lease of 30 s is renewed all the time.")

	checked, err := one.work(ctx, firstPays)
	if err != nil {
		return err
	}
	if checked.Lost != "" {
		return fmt.Errorf("%w: %s", errAgain, checked.Lost)
	}
	if err := one.stop(ctx); err != nil {
		return err
	}
	paused := stamp.Now()
	t.tell(checked.ReadAt, normal, "Client 1 has read the account at both servers: %d euros. It pays in %d.", checked.Balance, firstPays)
	t.tell(checked.At, normal, "Client 1 asks whether it still leads. It does, its lease is good for another")
	t.more(normal, "%d s. So it may write %d.", storySeconds(checked.Left), checked.Balance+firstPays)
	t.tell(paused, warning, "Just here client 1 is stopped (SIGSTOP), as by a garbage collection: for 45 s.")
	if err := one.ask(command{Do: "write"}); err != nil { // the step that is interrupted
		return err
	}

	if err := c.elect(ctx, two, tokenOfTwo, false); err != nil {
		return err
	}
	t.tell(stamp.Now(), leading, "The lease of client 1 has run out. Client 2 is elected: token 6.")
	checked, err = two.work(ctx, secondPays)
	if err != nil {
		return err
	}
	if checked.Lost != "" {
		return fmt.Errorf("%w: %s", errAgain, checked.Lost)
	}
	t.tell(checked.ReadAt, normal, "Client 2 shows its token, and only then reads the account: %d euros.", checked.Balance)
	t.more(normal, "It pays in %d.", secondPays)
	if err := two.ask(command{Do: "write"}); err != nil {
		return err
	}
	second, err := two.next(ctx)
	if err != nil {
		return err
	}
	t.tell(second.At, normal, "Client 2 writes %d. Both servers have taken it.", checked.Balance+secondPays)

	select {
	case a := <-one.answers:
		return fmt.Errorf("client 1 was not stopped: %+v", a)
	case <-time.After(talePause - (stamp.Now() - paused)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	woken := stamp.Now()
	if err := one.Signal(resume); err != nil {
		return err
	}
	first, err := one.next(ctx)
	if err != nil {
		return err
	}
	t.tell(woken, warning, "Client 1 goes on where it was, after %d s. It believes that it leads, and writes", storySeconds(woken-paused))
	t.more(warning, "%d, with token 5.", opening+firstPays)
	t.more(failed, "The server that does not check takes it.")
	t.more(leading, "The server that checks refuses it: %s.", first.Refused)
	t.tell(first.At, normal, "Client 1 learns that its lease has ended: after its write, not before.")
	return t.judge(ctx, c, first, second)
}

// judge compares the servers' accounts with the expected ones.
func (t *tale) judge(ctx context.Context, c *cast, first, second answer) error {
	switch {
	case second.Refused != "":
		return fmt.Errorf("client 2 was refused: %s", second.Refused)
	case first.Highest != tokenOfTwo:
		return fmt.Errorf("client 1 should have been refused, for the server has seen token %v: %+v", tokenOfTwo, first)
	case first.Lost == "":
		return errors.New("client 1 still led when it had written: it was not paused for longer than its lease")
	}
	bare, err := c.balance(ctx, c.stores[bareStore])
	if err != nil {
		return err
	}
	guarded, err := c.balance(ctx, c.stores[guardedStore])
	if err != nil {
		return err
	}
	t.out.say()
	t.say(strong, "What the servers have now, of %d + %d + %d euros:", opening, firstPays, secondPays)
	if want := opening + firstPays; bare != want {
		return fmt.Errorf("the server that does not check has %d; the late write should have made it %d", bare, want)
	}
	if want := opening + secondPays; guarded != want {
		return fmt.Errorf("the server that checks has %d; want %d", guarded, want)
	}
	t.out.say(piece{"  no check  ", strong}, piece{fmt.Sprintf("%d  CORRUPTED. ", bare), failed}, piece{fmt.Sprintf("The %d of client 2 are gone, and no client was told.", secondPays), normal})
	t.out.say(piece{"  checked   ", strong}, piece{fmt.Sprintf("%d  intact. ", guarded), leading}, piece{fmt.Sprintf("Client 1 knows that its %d were not paid in; they can", firstPays), normal})
	t.say(normal, "            be paid in again, by the present leader.")
	return nil
}

func (t *tale) epilogue() {
	for _, line := range []string{
		"",
		"Client 1 has done nothing wrong: it asked before it wrote. Between asking and",
		"writing there is always time for a pause, or a slow network. Only the server that",
		"receives the write can refuse it, by the token.",
		"",
		"To guard what you write to:   elect fence --help, docs/fencing.md",
	} {
		t.say(normal, "%s", line)
	}
}
