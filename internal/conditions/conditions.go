package conditions

import (
	"fmt"
	"io"
	"runtime"
)

// Conditions are those under which figures were measured. Their JSON is stable:
// fields are added, and never renamed or removed.
type Conditions struct {
	Go         string      `json:"go"`
	System     string      `json:"system"` // from System
	CPUs       int         `json:"cpus"`
	LoadBefore *[3]float64 `json:"load_before,omitempty"` // from Load
	LoadAfter  *[3]float64 `json:"load_after,omitempty"`
}

// Now returns the conditions before a measurement. The caller sets LoadAfter.
func Now() Conditions {
	return Conditions{Go: runtime.Version(), System: System(), CPUs: runtime.NumCPU(), LoadBefore: Load()}
}

// Rows writes them for people, as rows of two columns for a [text/tabwriter.Writer],
// which keeps its error.
func (c *Conditions) Rows(w io.Writer) {
	fmt.Fprintf(w, "machine\t%s, %d CPUs, %s\n", c.System, c.CPUs, c.Go)
	if c.LoadBefore != nil && c.LoadAfter != nil {
		fmt.Fprintf(w, "load\t%.2f before, %.2f after (1 minute)\n", c.LoadBefore[0], c.LoadAfter[0])
	}
}
