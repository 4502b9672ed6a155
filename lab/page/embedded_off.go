//go:build !embedmachines

package page

func embedded() (made, bool) { return made{}, false }
