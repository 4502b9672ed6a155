//go:build !mutants

package mutation

// Is is false: there are no mistakes in this build.
func Is(string) bool { return false }

// Check is nil: the environment chooses nothing in this build.
func Check() error { return nil }
