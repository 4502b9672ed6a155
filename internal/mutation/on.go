//go:build mutants

package mutation

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

var chosen = os.Getenv(Env)

// Is reports whether that mistake is switched on.
func Is(name string) bool { return chosen == name }

// Check returns an error, with the existing names, if the environment names no existing one.
func Check() error {
	all := append(append(Names(), OfGroups()...), EarlyWord, PostgresQuorum, AddressKept)
	for _, d := range append(OfDriving(), OfRedis()...) {
		all = append(all, d.Name)
	}
	if chosen == "" || slices.Contains(all, chosen) {
		return nil
	}
	return fmt.Errorf("%s=%q; want one of %s", Env, chosen, strings.Join(all, ", "))
}
