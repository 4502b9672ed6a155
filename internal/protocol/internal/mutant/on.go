//go:build mutants

package mutant

// Built reports whether mutants can be switched on in this build.
const Built = true

// Switch is which rule is switched off.
type Switch struct{ name string }

// On is the switch with that mutant on.
func On(name string) Switch { return Switch{name} }

// Has reports whether that mutant is on.
func (s Switch) Has(name string) bool { return s.name == name }
