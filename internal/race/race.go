// Package race tells tests whether the race detector is on. Code that runs in one
// goroutine takes ten times as long under it and shows nothing more.
package race

import (
	"fmt"
	"testing"
)

// Main runs the tests of a package, for its TestMain: none of them under the race
// detector. It is for packages whose code runs in one goroutine, and for those that
// only start real programs and servers.
func Main(m *testing.M) int {
	if Enabled {
		fmt.Println("nothing here is for the race detector")
		return 0
	}
	return m.Run()
}
