package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect"
)

// Stonith switches off the machine of a previous leader, by a fence agent of the ClusterLabs project or another program
// that is called like one: without arguments, and with its options on stdin, each a line NAME=VALUE. Exit code 0 means
// that the machine is off.
//
// Source: "Fence Agent API", https://github.com/ClusterLabs/fence-agents/blob/main/doc/FenceAgentAPI.md
type Stonith struct {
	Agent   string                       // its path
	Action  string                       // off or reboot
	Options map[string]string            // for all machines
	Nodes   map[string]map[string]string // for the machine of each candidate
	Unless  Hook                         // after its success the machine is left alone: the previous leader has demoted
	Limit   time.Duration
	Retries int
}

// Input is what the fence agent reads. A candidate without options is an error.
func (st *Stonith) Input(action, id string) (string, error) {
	own, ok := st.Nodes[id]
	if !ok {
		return "", fmt.Errorf("there are no options for the machine of %s; want %s in stonith.nodes", id, id)
	}
	options := map[string]string{"nodename": id}
	maps.Copy(options, st.Options)
	maps.Copy(options, own)
	options["action"] = action
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if name == "" || strings.ContainsAny(name, "=\n# ") || strings.Contains(options[name], "\n") {
			return "", fmt.Errorf("the option %q cannot be written as NAME=VALUE on one line; want one that can", name)
		}
		b.WriteString(name + "=" + options[name] + "\n")
	}
	return b.String(), nil
}

// secrets are the values of options that must not be logged, whatever the fence agent or a hook writes.
func (st *Stonith) secrets() (all []string) {
	if st == nil {
		return nil
	}
	for _, options := range append(slices.Collect(maps.Values(st.Nodes)), st.Options) {
		for name, value := range options {
			name = strings.ToLower(name)
			secret := strings.Contains(name, "pass") || strings.Contains(name, "secret") || strings.Contains(name, "token") || strings.Contains(name, "community")
			if secret && !strings.HasSuffix(name, "_script") && value != "" {
				all = append(all, value)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) }) // one may contain another
	return all
}

// isolate makes sure that a previous leader does nothing more: its machine is off, or was already.
func (s *steps) isolate(r *run, ctx context.Context, term *elect.Term, of predecessor) error {
	st := r.cfg.Stonith
	if of.off {
		return nil
	}
	if st.Unless.Run != "" {
		err := r.hook(ctx, "unless", st.Unless, term.Token(), true, "ELECT_PREVIOUS_ID="+of.id, "ELECT_PREVIOUS_TOKEN="+of.token.String())
		switch {
		case err == nil:
			s.isIsolated(r, of)
			return nil
		case ctx.Err() != nil:
			return err
		}
	}
	input, err := st.Input(st.Action, of.id)
	if err != nil {
		return err
	}
	r.tell(slog.LevelWarn, eventIsolating, term.Token(), "stonith: %s of the machine of %s, which led before with token %v", st.Action, of.id, of.token)
	if err := r.hook(ctx, "stonith", Hook{Path: st.Agent, Input: input, Limit: st.Limit, Retries: st.Retries}, term.Token(), true); err != nil {
		return err
	}
	s.isIsolated(r, of)
	return nil
}

// isIsolated keeps that a leader does nothing more, so that it is not switched off a second time.
func (s *steps) isIsolated(r *run, of predecessor) {
	s.previous.isOff(of)
	r.keepPrevious()
}

const eventIsolating elect.EventKind = "isolating"
