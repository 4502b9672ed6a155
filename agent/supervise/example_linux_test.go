package supervise_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/electd/elect/agent/supervise"
)

func ExampleStart() {
	// The first statement of main is supervise.KeeperMain(); here TestMain has
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

func ExampleBackoff() {
	var b supervise.Backoff
	failed := supervise.Exit{Reason: supervise.Exited, Code: 1}
	for range 5 {
		fmt.Println(b.After(failed, 20*time.Millisecond))
	}
	// Output:
	// 0s
	// 0s
	// 1s
	// 2s
	// 4s
}
