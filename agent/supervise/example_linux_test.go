package supervise_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/electd/elect"
	"github.com/electd/elect/agent/supervise"
)

func ExampleStart() {
	// The first statement of main is supervise.KeeperMain(nil); here TestMain has
	// called it.
	family, err := supervise.Start(context.Background(), supervise.Command{
		Path:   "sh",
		Args:   []string{"sh", "-c", "echo working; sleep 100 & exit 3"},
		Env:    os.Environ(),
		Stdout: os.Stdout,
	})
	if err != nil {
		fmt.Println(err) // *supervise.StartError has an exit code
		return
	}
	exit := family.Wait() // the sleep is dead, too
	fmt.Println(exit, family.Gone())
	// Output:
	// working
	// exit status 3 true
}

func ExamplePrepare() {
	spare, err := supervise.Prepare(nil, nil) // while standing by
	if err != nil {
		fmt.Println(err)
		return
	}
	defer spare.Close() // if it is never used

	family, err := supervise.Start(context.Background(), supervise.Command{
		Path: "echo", Args: []string{"echo", "sooner"}, Stdout: os.Stdout, Spare: spare,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(family.Wait())
	// Output:
	// sooner
	// exit status 0
}

// A whole program is in examples/guarded.
func ExampleGuard() {
	supervise.KeeperMain(nil) // or peer.Witness: the first statement of main
	guardian, err := supervise.Guard(supervise.GuardConfig{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// From here on in the guarded process, whose terms are handed to its keeper.
	_ = elect.Config{Guardian: guardian}
}

func ExampleNewTermGuard() {
	supervise.KeeperMain(nil) // the first statement of main
	contained, err := supervise.Contain(context.Background(), supervise.Cgroup, "nightly", nil)
	if err == nil {
		err = contained.GuardNetwork()
	}
	if err != nil {
		fmt.Println(err) // what is missing
		return
	}
	guard, err := supervise.NewTermGuard(contained)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = elect.Config{Guardian: guard}
	// The work, which Election.Lead calls: what the worker sends after the lease is dropped.
	_ = func(ctx context.Context, term *elect.Term) error {
		worker := exec.CommandContext(ctx, "./worker", term.Token().String())
		if err := guard.Start(worker); err != nil {
			return err
		}
		return worker.Wait()
	}
}
