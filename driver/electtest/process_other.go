//go:build !unix

package electtest

import "github.com/electd/elect/driver"

// process replaces the participants of Spawn on systems without Spawn.
type process struct{ driver.Elector }
