package runner

import (
	"os"
	"slices"
	"strings"

	"github.com/electd/elect/agent/lease"
)

// own are the variables that a command gets. Inherited ones belong to another election.
var own = []string{"ELECT_ELECTION", "ELECT_NAME", "ELECT_ID", "ELECT_TOKEN", "ELECT_TOKEN_FIXED", "ELECT_HOOK", "ELECT_REASON", "ELECT_PREVIOUS_ID", "ELECT_PREVIOUS_TOKEN", lease.Env}

// environment is that of the command, without the token, which is not known before the victory.
func environment(cfg *Config) []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		return slices.Contains(own, key)
	})
	env = append(env, cfg.Env...)
	return append(env, "ELECT_ELECTION="+cfg.Shown, "ELECT_NAME="+cfg.Name, "ELECT_ID="+cfg.ID)
}
