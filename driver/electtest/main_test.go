//go:build unix

package electtest_test

import (
	"os"
	"testing"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/driver/electtest"
	"github.com/electd/elect/store/memory"
)

func TestMain(m *testing.M) {
	electtest.Serve(map[string]driver.Opener{"memory": memory.NewStore(0).Open})
	os.Exit(m.Run())
}
