//go:build unix && !aix && !netbsd && !solaris

package supervise

import (
	"fmt"
	"os"
	"sync/atomic"

	_ "github.com/electd/elect/agent/supervise/internal/early" // runs a keeper that needs no witness
	"github.com/electd/elect/agent/supervise/internal/keeper"
	"github.com/electd/elect/internal/mutation"
)

// keeperReady is not nil once KeeperMain was called. It is process-wide because it is about main: without the call
// every keeper would run the whole program again, which would start keepers of its own.
var keeperReady atomic.Pointer[launch]

// KeeperMain runs the keeper and exits, if this process was started as one. Otherwise it returns at once. It must be
// the first statement of main, and of TestMain in tests that call Start. w speaks for processes that leave a
// testament; with nil there is no witness. There are witnesses on Linux only.
//
// A keeper that needs no witness does not reach main: it runs before most packages of the program are initialized.
func KeeperMain(w Witness) {
	if keeper.Is() {
		keeper.Run(keeper.Witness(w))
	}
	if err := mutation.Check(); err != nil { // in builds for tests only
		fmt.Fprintln(os.Stderr, err)
		os.Exit(64)
	}
	how := launched()
	how.witness = w != nil
	keeperReady.CompareAndSwap(nil, how)
}
