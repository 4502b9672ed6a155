package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/doctor"
	"github.com/electd/elect/cmd/elect/internal/failed"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/internal/protocol/quorum"
	"github.com/electd/elect/peer"
	"github.com/electd/elect/peer/certs"
)

const doctorHelp = `Measure what an election among peers depends on, and report which times fit:

  pauses        how late timers of 1 ms are in this process, under the present load
  disk          how long it takes to write and sync (fdatasync) 512 bytes in the data
                directory, in a file that is removed again; how much space is free
  peers         how long a TCP connection to each other peer takes, 20 times. A machine
                where no process listens yet answers, too. No data is sent: no
                certificate is needed, and a running node ignores the connection
  clock         its name, its resolution, and whether it and CLOCK_MONOTONIC stay together
  files         how many files this process may open
  contain       the level that elect run --contain auto uses here, and what cgroup,
                the network guard and the level pid need
  certificates  how long each that --election names is valid, the authority's, too

For each profile, and for the times of --election if they are not those of a profile,
it compares
  - two round trips and two syncs at the 99th percentile with the slot of an election
  - the longest pause with the pause that a leader's lease allows
  - the round trip with the heartbeat
"tight" means less than twice what is needed. doctor recommends the quickest profile
that fits well, or else the slowest tight one. It does not recommend fast if round trips
are not known.

In a store doctor asks the server instead: the version, the role, the user's rights, and
each setting that matters, with what it means for the election. It measures the round
trip, as a read of what the election keeps, and a write, for two seconds at most, and
computes how long a takeover takes at the longest with the times of the URL. "wrong"
means that elections do not work, or lose their guarantee. While somebody leads it writes
nothing that candidates see; else it leaves what a candidate leaves that has not led: a
record of the election --name, which is doctor if it is not given. --name may be needed
if the user's rights are those of one election. For file: the machine is the store.

Rare pauses need a long measurement: --for 10m, under the usual load. Without --election
doctor checks this machine alone. It needs no right but to write to the data directory,
and leaves nothing behind there.

Exit codes: 0 a profile fits, or nothing is wrong with the server; 1 none fits, or
something is wrong; 64 the URL is wrong; 69 the server does not answer, or would refuse
elect status, too, for the reason that stderr has; 130 interrupted.

-o json writes one object: system, cpus, load, took_ms, pauses, disk, peers, clock,
certificates (a list of file, for, expires, days_left, soon), files, contain (level,
missing, guard, pid), voters, problems, notes, profiles (a list of name, heartbeat_ms, promise_ms,
lease_ms, slot_ms, worst_takeover_ms, fits, findings) and recommended. Each measurement
has samples, p50_ms, p99_ms and max_ms. For a store the object has election,
lease_ms, worst_takeover_ms, assumes, server (a list of what, value, means, wrong),
round_trip, write, and where they were not measured the reasons, unasked and unwritten.
-o yaml writes the same on several lines.`

// mostDoctor bounds a measurement, because it keeps each tick.
const mostDoctor = time.Hour

func newDoctor(openers elect.Openers) *cobra.Command {
	var election, name, data string
	var format form
	span := 10 * time.Second
	cmd := &cobra.Command{
		Use:     "doctor [flags]",
		Short:   "measure this machine or a store, and report what is wrong",
		Long:    doctorHelp,
		Example: "  elect doctor\n  elect doctor --election 'peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400' --data /var/lib/elect --for 5m\n  elect doctor --election redis://10.0.0.5/0",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			if span <= 0 || span > mostDoctor {
				return exit.Usagef("--for is %v; want more than 0 and at most %v", span, mostDoctor)
			}
			cfg := doctor.Config{Data: data, For: span}
			p := place{election: election, name: cmp.Or(name, "doctor")}
			if p.isStore(openers) || cmd.Flags().Changed("election") && p.isFile() {
				for _, flag := range []string{"data", "for"} {
					if cmd.Flags().Changed(flag) {
						return exit.Usagef("--%s: this is measured for an election among peers only; leave it out", flag)
					}
				}
				return p.examine(cmd, openers, format)
			}
			if cmd.Flags().Changed("name") {
				return exit.Usagef("--name: an election among peers has none here; leave it out")
			}
			if !cmd.Flags().Changed("election") && !p.isPeer() {
				election = "" // the variable names another kind of election
			}
			voters, configured, err := patient(election, &cfg)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			measured, err := doctor.Measure(ctx, cfg)
			if ctx.Err() != nil && cmd.Context().Err() == nil {
				return exit.Silent(exit.BySignal(syscall.SIGINT))
			}
			if err != nil {
				return err
			}
			r := &doctor.Report{Measurements: measured, Verdict: doctor.Judge(measured, voters, configured)}
			err = format.write(cmd.OutOrStdout(), r, r.Write)
			if err == nil && r.Recommended == "" {
				err = exit.Silent(1)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&election, "election", "", "`URL` of an election (default: none, this machine alone, for an election among peers)")
	f.StringVar(&name, "name", "", "`NAME` of the election in a store or a directory (default: doctor)")
	f.StringVar(&data, "data", "", "`DIR` that holds, or will hold, the data directories (default: that of the URL, or elect-peer in your state directory)")
	f.Var(cli.Duration(&span), "for", "`TIME` to measure for")
	format.flag(f)
	return cmd
}

// measurable is the configuration of the URL. It needs no certificates here, because no message is sent to the peers,
// but the certificates that it names must exist.
func (p *place) measurable() (voters []peer.Peer, peers peer.Config, err error) {
	voters, peers, err = p.parsePeers()
	if err != nil {
		return nil, peers, err
	}
	if peers.Certs == "" && peers.CA == "" {
		peers.Insecure = true
	} else if c, err := peer.NewClient(voters, p.name, peers); errors.Is(err, certs.ErrExpired) {
		peers.Insecure = false // the report mentions it
	} else if err != nil {
		return nil, peers, ofPeers(err, &peers)
	} else if err := c.Close(); err != nil {
		return nil, peers, failed.Backend(err)
	}
	if _, err := peers.Plan(voters); err != nil {
		return nil, peers, exit.With(exit.Usage, err)
	}
	return voters, peers, nil
}

// patient completes the configuration of the measurement. It returns the number of voters, 0 if not known, and the
// configured times if they are not those of a profile.
func patient(election string, cfg *doctor.Config) (voters int, configured *quorum.Profile, err error) {
	if election != "" {
		p := place{election: election, name: "doctor"}
		if !p.isPeer() {
			return 0, nil, exit.Usagef("--election %s: there is nothing to measure; want the URL of peers, a directory, a database or another store, or none", p.shown())
		}
		listed, peers, err := p.measurable()
		if err != nil {
			return 0, nil, err
		}
		plan, err := peers.Plan(listed)
		if err != nil {
			return 0, nil, exit.With(exit.Usage, err)
		}
		for _, v := range slices.Concat(listed, peers.Observers) {
			if v.Addr != "" {
				cfg.Peers = append(cfg.Peers, doctor.Target{ID: v.ID, Addr: v.Addr})
			}
		}
		if cfg.Data == "" {
			cfg.Data = peers.Data
		}
		voters, cfg.Certificates = len(listed), heldBy(&peers)
		if plan.Changed {
			configured = &quorum.Profile{Name: "configured", Heartbeat: plan.Heartbeat, Promise: plan.Promise, Slot: plan.Slot}
		}
	}
	if cfg.Data == "" {
		home, err := stateHome()
		if err != nil {
			return 0, nil, err
		}
		cfg.Data = filepath.Join(home, "elect-peer")
	}
	cfg.Data, err = filepath.Abs(cfg.Data)
	return voters, configured, err
}

// heldBy returns the certificates that a configuration names. Errors of their files are reported elsewhere.
func heldBy(c *peer.Config) (all []doctor.Certificate) {
	var files []string
	if c.Certs != "" {
		files, _ = filepath.Glob(filepath.Join(escapeGlob(c.Certs), "*.crt"))
	} else if c.CA != "" {
		files = []string{c.CA, c.Cert}
	}
	for _, file := range files {
		read, err := readCerts(file)
		if err != nil {
			continue
		}
		one := read[0]
		role, name := certs.RoleOf(one.ID)
		h := doctor.Certificate{File: file, For: cmp.Or(name, one.ID), Needed: role == "", Expires: one.Expires.UTC(), Soon: one.soon}
		h.Left = int(math.Floor(time.Until(one.Expires).Hours() / 24))
		switch {
		case one.CA:
			h.For = doctor.Authority
		case role != "" && name == "":
			h.For = fmt.Sprintf("an operator (%s)", role)
		}
		all = append(all, h)
	}
	return all
}
