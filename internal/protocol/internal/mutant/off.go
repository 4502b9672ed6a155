//go:build !mutants

package mutant

// Built reports whether mutants can be switched on in this build.
const Built = false

// Switch is which rule is switched off.
type Switch struct{}

// Has is false: there are no mutants in this build.
func (Switch) Has(string) bool { return false }
