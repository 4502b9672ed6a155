package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/internal/conditions"
)

// peersTimeout bounds a round and its preparation, in addition to twice the worst takeover.
const peersTimeout = 30 * time.Second

// RunPeers measures takeovers among peers. Each mode that the kinds need is an election of its own. The kinds take
// turns, so that a temporary disturbance of the machine affects all of them. The report is of use even after an
// error: it holds what was measured until then. Two leaders at once are an error, and so is a token that did not
// rise.
func RunPeers(ctx context.Context, cfg PeersConfig) (report *PeersReport, err error) {
	report = newPeersReport(&cfg)
	if _, disk := conditions.Filesystem(cfg.Dir); !disk {
		return report, fmt.Errorf("%s is in memory (%s), where a ballot costs nothing to save; want a directory on a disk: set XDG_STATE_HOME", cfg.Dir, report.Directory)
	}
	elections := map[mode]*election{}
	defer func() {
		for _, s := range elections {
			report.Tenures += len(s.lives)
			report.Lost += s.lost
			report.Strayed += s.strayed
			err = errors.Join(err, s.close())
		}
		report.LoadAfter = conditions.Load()
	}()
	all := chosen(cfg.Kills)
	for _, k := range all {
		if elections[k.mode] != nil {
			continue
		}
		dir := filepath.Join(cfg.Dir, string(k.mode))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return report, err
		}
		s, err := newElection(&cfg, k.mode, dir)
		if err != nil {
			return report, fmt.Errorf("%s: %w", k.mode, err)
		}
		elections[k.mode] = s
		report.Promise, report.Worst = millis(s.plan.Promise), millis(s.plan.WorstTakeover)
		if err := s.begin(ctx); err != nil {
			return report, fmt.Errorf("%s: %w", k.mode, err)
		}
	}
	took := map[Kill][]time.Duration{}
	stale := map[Kill]time.Duration{}
	var beyond time.Duration
	defer func() {
		for _, k := range all {
			report.add(k, took[k.kill], stale[k.kill], beyond)
		}
	}()
	for round := range cfg.Rounds {
		if round%20 == 0 {
			cfg.Progress("peers: round %d of %d, of %d kinds", round+1, cfg.Rounds, len(all))
		}
		for _, k := range all {
			s := elections[k.mode]
			d, err := s.play(ctx, k.kill)
			beyond = max(beyond, s.beyond)
			if err != nil {
				return report, fmt.Errorf("%s, round %d: %w", k.kill, round+1, err)
			}
			took[k.kill] = append(took[k.kill], d)
			over, violations := judge(s.lives)
			stale[k.kill] = max(stale[k.kill], over)
			report.Violations = append(append(report.Violations, s.violations...), violations...)
			if err := report.Err(); err != nil {
				return report, fmt.Errorf("%s, round %d: %w", k.kill, round+1, err)
			}
		}
	}
	return report, nil
}

// now reads the clock of all stamps.
func now() time.Duration { return stamp.Now() }
