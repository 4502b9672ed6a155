//go:build embedmachines

package page

import (
	"embed"
	"io/fs"
)

// make electlab writes them.
//
//go:embed machines.wasm.gz wasm_exec.js
var inside embed.FS

func embedded() (fs.FS, bool) { return inside, true }
