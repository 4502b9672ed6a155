//go:build !linux

package watchdog

import (
	"errors"
	"os"
	"time"
)

func setTimeout(*os.File, time.Duration) error {
	return errors.New("watchdog devices are not supported on this system; want Linux")
}
