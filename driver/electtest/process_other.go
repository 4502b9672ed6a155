//go:build !unix

package electtest

import "github.com/electd/elect/driver"

// process stands for the participants that Spawn starts, where there is no
// Spawn.
type process struct{ driver.Elector }
