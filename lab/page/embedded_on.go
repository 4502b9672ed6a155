//go:build embedmachines

package page

import (
	"embed"
	"io/fs"
)

// inside has the machines, which make electlab writes here before it builds.
//
//go:embed machines.wasm.gz wasm_exec.js
var inside embed.FS

func embedded() (fs.FS, bool) { return inside, true }
