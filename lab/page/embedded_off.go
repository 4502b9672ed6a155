//go:build !embedmachines

package page

import "io/fs"

func embedded() (fs.FS, bool) { return nil, false }
