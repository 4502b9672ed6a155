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
	scale       = 100
	zombieLease = 300 * time.Millisecond
	zombiePause = 450 * time.Millisecond
)

// The story's numbers.
const (
	opening    = 100 // initially in the account
	firstPays  = 20
	secondPays = 50
	tokenOfOne = fence.Token(5)
	tokenOfTwo = fence.Token(6)
)

// zombieAttempts bounds how often the story begins: a machine that is busy for the length of a lease has another
// election, with other tokens than the textbook.
const zombieAttempts = 5

// errAgain is matched by the error of an attempt that was disturbed before anything was shown.
var errAgain = errors.New("another election came in between")

// Zombie plays the textbook's story of fencing tokens, after Kleppmann, "How to do distributed locking" (2016), with
// two candidates of a real election, the first of which is really stopped between its check and its write; and two
// servers, of which one checks tokens. It returns an error if anything went differently. If ctx ends it early it
// returns the cause.
//
// A third server checks nothing. What writes to it is under the network guard, which drops the late write. A machine
// without a network guard is shown the other two.
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
	t := &zombieRun{out: &printer{to: cfg.Out, colour: cfg.Colour}}
	_, t.unguarded = guardedWriters(ctx)
	t.introduce()
	for attempt := range zombieAttempts {
		if attempt > 0 {
			t.say(warning, "           This machine was too busy (%v). The example starts again.", err)
			t.out.say()
		}
		if err = t.attempt(ctx, cfg, filepath.Join(dir, fmt.Sprint(attempt))); !errors.Is(err, errAgain) {
			break
		}
	}
	if err == nil {
		t.conclude()
	}
	return err
}

// zombieRun plays the story of the zombie, and writes what happens.
type zombieRun struct {
	out   *printer
	begin time.Duration // the begin of the story, on the clock of stamp.Now

	unguarded error // why this machine has no network guard
}

func (t *zombieRun) say(style style, format string, args ...any) {
	t.out.say(piece{fmt.Sprintf(format, args...), style})
}

// tell writes what happened at a time.
func (t *zombieRun) tell(at time.Duration, style style, format string, args ...any) {
	t.out.say(piece{fmt.Sprintf("second %2d: ", storySeconds(at-t.begin)), faint}, piece{fmt.Sprintf(format, args...), style})
}

// more continues the last line.
func (t *zombieRun) more(style style, format string, args ...any) {
	t.out.say(piece{strings.Repeat(" ", len("second 00: ")) + fmt.Sprintf(format, args...), style})
}

// storySeconds are the seconds in the story for a real time.
func storySeconds(d time.Duration) int { return int((max(d, 0)*scale + time.Second/2) / time.Second) }

func (t *zombieRun) introduce() {
	for _, line := range []string{
		"The usual example for fencing tokens, with real processes:",
		"Kleppmann, \"How to do distributed locking\" (2016).",
		"",
		"Two clients, processes of this machine, work on one account. Only the leader may",
		"write. An election among three voters decides which client leads, with a lease of",
		"30 seconds. Two servers keep the account: one checks the token of each write, the",
		"other does not. The example runs a hundred times as fast as it says.",
		"",
	} {
		t.say(normal, "%s", line)
	}
	if t.unguarded != nil {
		t.say(warning, "A third server, for the network guard, is left out: %v", t.unguarded)
	} else {
		t.say(normal, "A third server checks nothing either. Each client writes to it by a process of its")
		t.say(normal, "own, the writer, which is under a network guard, as with elect run --guard network:")
		t.say(normal, "after the lease the kernel drops what the writer sends.")
	}
	t.out.say()
}

// attempt plays once.
func (t *zombieRun) attempt(ctx context.Context, cfg Config, dir string) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, zombieLimit, fmt.Errorf("the example has not ended within %v", zombieLimit))
	defer cancel()
	c, err := startParticipants(ctx, cfg, dir, t.unguarded == nil)
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
	t.tell(t.begin, leading, "Client 1 is elected: token 5. Its lease of 30 s is renewed while it runs.")

	checked, err := one.work(ctx, firstPays)
	if err != nil {
		return err
	}
	if checked.Lost != "" {
		return fmt.Errorf("%w: %s", errAgain, checked.Lost)
	}
	if err := one.freeze(ctx); err != nil {
		return err
	}
	paused := stamp.Now()
	t.tell(checked.ReadAt, normal, "Client 1 has read the account at both servers: %d euros. It pays in %d.", checked.Balance, firstPays)
	t.tell(checked.At, normal, "Client 1 checks whether it still leads. It does: its lease lasts for another")
	t.more(normal, "%d s. So it may write %d.", storySeconds(checked.Left), checked.Balance+firstPays)
	pause := zombiePause
	if one.writer != nil {
		pause += writerPatience
	}
	t.tell(paused, warning, "Now client 1 is stopped for %d s (SIGSTOP), as by a garbage collection.", storySeconds(pause))
	if one.writer != nil {
		t.more(warning, "Its keeper is stopped too, which would kill its writer before the lease ends,")
		t.more(warning, "and for %d s the writer itself.", storySeconds(zombiePause))
	}
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
	t.tell(checked.ReadAt, normal, "Client 2 shows its token first, and then reads the account: %d euros.", checked.Balance)
	t.more(normal, "It pays in %d.", secondPays)
	if err := two.meetWriter(ctx); err != nil {
		return err
	}
	if err := two.ask(command{Do: "write"}); err != nil {
		return err
	}
	second, err := two.next(ctx)
	if err != nil {
		return err
	}
	if two.writer == nil {
		t.tell(second.At, normal, "Client 2 writes %d. Both servers accept it.", checked.Balance+secondPays)
	} else {
		a, err := two.writer.write(ctx, checked.Balance+secondPays)
		if err != nil {
			return err
		}
		if a.Refused != "" {
			return fmt.Errorf("%w: the writer of client 2 had no answer: %s", errAgain, a.Refused)
		}
		t.tell(second.At, normal, "Client 2 writes %d. All three servers accept it.", checked.Balance+secondPays)
	}

	select {
	case a := <-one.answers:
		return fmt.Errorf("client 1 was not stopped: %+v", a)
	case <-time.After(zombiePause - (stamp.Now() - paused)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if one.writer != nil {
		if err := t.wakeWriter(ctx, one.writer); err != nil {
			return err
		}
	}
	woken := stamp.Now()
	if err := one.Signal(resume); err != nil {
		return err
	}
	first, err := one.next(ctx)
	if err != nil {
		return err
	}
	t.tell(woken, warning, "Client 1 continues, after %d s. It believes that it leads, and writes", storySeconds(woken-paused))
	t.more(warning, "%d, with token 5.", opening+firstPays)
	t.more(failed, "The server that does not check accepts it.")
	t.more(leading, "The server that checks refuses it: %s.", first.Refused)
	t.tell(first.At, normal, "Client 1 learns only after its write that its lease has ended.")
	return t.judge(ctx, c, paused, first, second)
}

// wakeWriter lets the writer of client 1 go on, while client and keeper are still stopped, so that neither kills it.
func (t *zombieRun) wakeWriter(ctx context.Context, w *client) error {
	woken := stamp.Now()
	if err := signalTo(w.is.PID, resume); err != nil {
		return fmt.Errorf("%w: the writer of client 1 was killed: %w", errAgain, err)
	}
	a, err := w.write(ctx, opening+firstPays)
	if err != nil {
		return err
	}
	if a.Refused == "" {
		return errors.New("the server that checks nothing has answered the writer of client 1: the network guard did not stop it")
	}
	t.tell(woken, warning, "The writer of client 1 continues first. It writes %d, and no keeper is running", opening+firstPays)
	t.more(leading, "to kill it. For %d s the kernel drops each packet, however often it is sent.", storySeconds(a.At-woken))
	return signalTo(w.is.Keeper, resume)
}

// judge compares the servers' accounts with the expected ones. It fails if anything has arrived from client 1's writer
// since client 1 was stopped.
func (t *zombieRun) judge(ctx context.Context, c *participants, paused time.Duration, first, second answer) error {
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
	t.out.say(piece{"  no check  ", strong}, piece{fmt.Sprintf("%d  CORRUPTED. ", bare), failed}, piece{fmt.Sprintf("The %d of client 2 are lost, and no client was told.", secondPays), normal})
	t.out.say(piece{"  checked   ", strong}, piece{fmt.Sprintf("%d  intact. ", guarded), leading}, piece{fmt.Sprintf("Client 1 knows that its %d were not paid in; they can", firstPays), normal})
	t.say(normal, "            be paid in again, by the present leader.")
	if t.unguarded != nil {
		return nil
	}
	dir := storeDir(c.cluster.Dir, linesStore)
	third, err := os.ReadFile(accountFile(dir))
	if err != nil {
		return err
	}
	late, err := arrived(dir, c.clients[0].writer.is.Addr, paused)
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(third)); late != 0 || got != fmt.Sprint(opening+secondPays) {
		return fmt.Errorf("the server under the network guard has %s, and %d bytes of client 1 arrived there after its stop; want %d, and 0", got, late, opening+secondPays)
	}
	t.out.say(piece{"  guarded   ", strong}, piece{fmt.Sprintf("%d  intact, though nothing checks. ", opening+secondPays), leading}, piece{"By this server's clock 0 bytes of", normal})
	t.say(normal, "            client 1 have arrived since it was stopped.")
	return nil
}

func (t *zombieRun) conclude() {
	for _, line := range []string{
		"",
		"Client 1 has done nothing wrong: it checked before it wrote. A pause or a slow",
		"network can always come between the check and the write. The server that receives",
		"the write can refuse it, by the token. Where the server cannot, the sender's",
		"kernel can drop what is sent after the end of the lease.",
		"",
		"To guard what you write to:   elect fence --help, docs/fencing.md",
		"To guard what writes:         elect run --guard network, docs/containment.md",
	} {
		t.say(normal, "%s", line)
	}
}
