//go:build unix

// Guarded runs workers, processes of their own, in exactly one of however many
// copies of it are started. Start it in three terminals, and kill whichever one
// leads, in any way:
//
//	go build ./examples/guarded && ./guarded
//
// A worker that is left behind by a leader that was killed would go on with its
// work, beside the workers of the next one. Here nothing is left behind: Guard
// puts the program under a keeper, and until that has killed all that the
// program ever started, no other leads. Afterwards
//
//	./guarded -verify
//
// proves from the log alone that no worker wrote after one of a later leader.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
	"github.com/electd/elect/file"
)

func main() {
	// With elections among peers: supervise.KeeperMain(peer.Witness), so that the
	// others hear at once that a leader is dead with all its work.
	supervise.KeeperMain(nil)
	var (
		at     = flag.String("election", "file:"+filepath.Join(os.TempDir(), fmt.Sprintf("elect-example-%d", os.Getuid())), "where the election is held: a URL")
		name   = flag.String("name", "guarded", "name of the election")
		path   = flag.String("log", "work.log", "file that the workers write to")
		worker = flag.String("worker", "", "be a worker of the leader with this token")
		verify = flag.Bool("verify", false, "check the log and exit")
	)
	flag.Parse()
	if err := start(*at, *name, *path, *worker, *verify); err != nil {
		fmt.Fprintln(os.Stderr, "guarded:", err)
		os.Exit(1)
	}
}

func start(at, name, path, worker string, verify bool) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid())
	switch {
	case verify:
		return verifyLog(path)
	case worker != "":
		return work(path, worker)
	}
	// Only the program itself is guarded, and before it opens anything: from
	// here on this process is the front, and the program goes on in another.
	guardian, err := supervise.Guard(supervise.GuardConfig{Logger: log})
	if err != nil {
		return err
	}
	log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	openers := elect.Openers{"file": file.Open}
	// The guardian keeps what each term rests on until all that this program has
	// started is dead: the kernel's lock, or the right to say that this candidate is
	// dead. Where a term is a lease, it kills the program before the lease ends, also
	// when the program is frozen.
	election, err := openers.Open(ctx, at, name, elect.Config{Guardian: guardian, Logger: log})
	if err != nil {
		return err
	}
	defer election.Close()
	log.Info("standing by")
	err = election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		log.Info("leading", "token", term.Token())
		return runWorker(ctx, path, term.Token())
	})
	if errors.Is(err, context.Canceled) {
		return nil // told to end
	}
	return err
}

// runWorker runs a worker until it ends or ctx does.
func runWorker(ctx context.Context, path string, token elect.Token) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "-log", path, "-worker", token.String())
	cmd.Stderr = os.Stderr
	// The keeper sends SIGTERM to the program's process group. A worker in that group
	// could die of it before this process has read its own signal, and look as if it had failed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil // Lead knows why
	}
	return err
}

// work writes a line every few milliseconds, for ever. It does not look whether
// its leader is alive.
func work(path, token string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for range time.Tick(5 * time.Millisecond) {
		if _, err := fmt.Fprintf(f, "token=%s program=%d\n", token, os.Getppid()); err != nil {
			return err
		}
	}
	return nil
}
