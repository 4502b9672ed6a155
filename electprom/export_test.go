package electprom

import "github.com/electd/elect"

// Reasons are those that have a counter.
func Reasons() []elect.Reason { return reasons[:] }
