//go:build embedmachines

package page

import _ "embed"

// make electlab writes them.
var (
	//go:embed machines.wasm.gz
	insidePacked []byte
	//go:embed wasm_exec.js
	insideGlue []byte
)

func embedded() (made, bool) { return made{insidePacked, insideGlue}, true }
