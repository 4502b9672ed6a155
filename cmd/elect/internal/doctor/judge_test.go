package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/cmd/elect/internal/doctor"
	"github.com/electd/elect/internal/protocol/quorum"
)

const (
	us = doctor.Millis(time.Microsecond)
	ms = doctor.Millis(time.Millisecond)
)

// measured is a quiet machine with two peers in one rack.
func measured(change func(*doctor.Measurements)) *doctor.Measurements {
	free := uint64(10 << 30)
	m := &doctor.Measurements{
		Pauses: doctor.Distribution{Samples: 9000, P50: 80 * us, P99: 200 * us, Max: 3 * ms},
		Disk:   doctor.Disk{Dir: "/var/lib/elect", Kind: "ext4", Lasts: true, Sync: doctor.Distribution{Samples: 400, P50: 300 * us, P99: 700 * us, Max: 2 * ms}, Free: &free},
		Peers: []doctor.Peer{
			{ID: "n2", Addr: "10.0.0.2:7400", Listens: true, RTT: doctor.Distribution{Samples: 200, P50: 100 * us, P99: 200 * us, Max: 400 * us}},
			{ID: "n3", Addr: "10.0.0.3:7400", Listens: true, RTT: doctor.Distribution{Samples: 200, P50: 150 * us, P99: 300 * us, Max: 900 * us}},
		},
		Clock: doctor.Clock{Name: "CLOCK_BOOTTIME", Resolution: 1},
		Files: 1024,
	}
	if change != nil {
		change(m)
	}
	return m
}

func certificate(of string, needed bool, left int, soon bool) func(*doctor.Measurements) {
	return func(m *doctor.Measurements) {
		m.Certificates = []doctor.Certificate{{File: "n1.crt", For: of, Needed: needed, Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Left: left, Soon: soon}}
	}
}

func TestJudge(t *testing.T) {
	alone := func(m *doctor.Measurements) { m.Peers = nil }
	for name, c := range map[string]struct {
		change  func(*doctor.Measurements)
		voters  int
		fits    string // of lan, fast, wan, calm
		best    string
		says    string // somewhere among problems, notes and findings
		unknown string // what must not be said
	}{
		"a quiet rack":             {nil, 3, "yes yes yes yes", "fast", "2 · RTT 300µs (to n3) + 2 · sync 700µs = 2ms; its slot is 6.25ms", "no election"},
		"no election":              {alone, 0, "yes yes yes yes", "lan", "no election was given, so round trips are taken as 0, and worst cases are for 3 voters", "not known"},
		"one voter has no way":     {alone, 1, "yes yes yes yes", "fast", "", "no election"},
		"a sync that is just slow": {func(m *doctor.Measurements) { m.Disk.Sync.P99 = 2 * ms }, 3, "yes tight yes yes", "lan", "sync 2ms = 4.6ms; its slot is 6.25ms", ""},
		"too slow for a rack":      {func(m *doctor.Measurements) { m.Disk.Sync.P99 = 4 * ms }, 3, "yes no yes yes", "lan", "", ""},
		"a spinning disk":          {func(m *doctor.Measurements) { m.Disk.Sync.P99 = 40 * ms }, 3, "no no yes yes", "wan", "", ""},
		// lease = 200 · 0.95 / 1.05 − 5 = 175.952; less a fifth, 2 heartbeats and 2 round trips: 90.162.
		"a pause that a rack bears":   {func(m *doctor.Measurements) { m.Pauses.Max = 90161 * us }, 3, "yes tight yes yes", "lan", "= 90.2ms; the longest pause was 90.2ms", ""},
		"and one that it does not":    {func(m *doctor.Measurements) { m.Pauses.Max = 90163 * us }, 3, "yes no yes yes", "lan", "", ""},
		"a pause of half a second":    {func(m *doctor.Measurements) { m.Pauses.Max = 500 * ms }, 3, "tight no yes yes", "wan", "", ""},
		"long pauses":                 {func(m *doctor.Measurements) { m.Pauses.Max = 2500 * ms }, 3, "no no tight yes", "calm", "", ""},
		"pauses that nothing bears":   {func(m *doctor.Measurements) { m.Pauses.Max = 7000 * ms }, 3, "no no no no", "", "", ""},
		"pauses that calm just bears": {func(m *doctor.Measurements) { m.Pauses.Max = 6000 * ms }, 3, "no no no tight", "calm", "", ""},
		"another continent":           {func(m *doctor.Measurements) { m.Peers[0].RTT.P99 = 90 * ms }, 3, "no no yes yes", "wan", "(to n2)", ""},
		"a peer that does not answer": {func(m *doctor.Measurements) {
			m.Peers[1] = doctor.Peer{ID: "n3", Addr: "10.0.0.3:7400", Error: "i/o timeout"}
		}, 3, "yes yes yes yes", "lan", "n3 at 10.0.0.3:7400 was not measured: i/o timeout", ""},
		"a peer that is not up":        {func(m *doctor.Measurements) { m.Peers[0].Listens = false }, 3, "yes yes yes yes", "fast", "no process listens for n2 at 10.0.0.2:7400", "not known"},
		"no data directory":            {func(m *doctor.Measurements) { m.Disk.Error = "open /x: permission denied" }, 3, "no no no no", "", "the data directory cannot be used: open /x: permission denied", ""},
		"a full disk":                  {func(m *doctor.Measurements) { *m.Disk.Free = 1 << 20 }, 3, "no no no no", "", "1024 KiB free in /var/lib/elect; want at least 16 MiB", ""},
		"a disk in memory":             {func(m *doctor.Measurements) { m.Disk.Kind, m.Disk.Lasts = "tmpfs", false }, 3, "yes yes yes yes", "fast", "is on tmpfs, which is lost at a reboot", ""},
		"few files":                    {func(m *doctor.Measurements) { m.Files = 64 }, 3, "no no no no", "", "may open 64 files; want at least 128", ""},
		"files not known":              {func(m *doctor.Measurements) { m.Files = 0 }, 3, "yes yes yes yes", "fast", "", ""},
		"a coarse clock":               {func(m *doctor.Measurements) { m.Clock.Resolution = 4 * ms }, 3, "no no no no", "", "counts in steps of 4ms", ""},
		"a machine that slept":         {func(m *doctor.Measurements) { m.Clock.Apart = 3000 * ms }, 3, "yes yes yes yes", "fast", "the clocks differed by 3s", ""},
		"set back":                     {func(m *doctor.Measurements) { m.Clock.Apart = -3000 * ms }, 3, "yes yes yes yes", "fast", "the clocks differed by 3s", ""},
		"a clock that suspends":        {func(m *doctor.Measurements) { m.Clock.Suspends = true }, 3, "yes yes yes yes", "fast", "CLOCK_BOOTTIME stops", ""},
		"a certificate that ends soon": {certificate("n1", true, 12, true), 3, "yes yes yes yes", "fast", "n1.crt, the certificate of n1, expires on 2026-01-02, in 12 days; want elect certs renew", ""},
		"an authority that ends soon":  {certificate(doctor.Authority, true, 12, true), 3, "yes yes yes yes", "fast", "in 12 days; want elect certs rollover", ""},
		"one that has expired":         {certificate("n1", true, -1, true), 3, "no no no no", "", "expired on 2026-01-02: no node starts with it; want elect certs renew", ""},
		"an operator's":                {certificate("alice", false, -1, true), 3, "yes yes yes yes", "fast", "the certificate of alice, expired on 2026-01-02; want elect certs renew", "starts"},
		"one that is valid":            {certificate("n1", true, 300, false), 3, "yes yes yes yes", "fast", "", "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			v := doctor.Judge(measured(c.change), c.voters, nil)
			var fits, said []string
			for _, j := range v.Profiles {
				fits = append(fits, string(j.Fit))
				for _, f := range j.Findings {
					said = append(said, f.Says)
				}
			}
			if got := strings.Join(fits, " "); got != c.fits || v.Recommended != c.best {
				t.Errorf("fits %q, recommended %q; want %q, %q", got, v.Recommended, c.fits, c.best)
			}
			all := strings.Join(slices.Concat(v.Problems, v.Notes, said), "\n")
			if !strings.Contains(all, c.says) {
				t.Errorf("it does not say %q, but:\n%s", c.says, all)
			}
			if c.unknown != "" && strings.Contains(all, c.unknown) {
				t.Errorf("it says %q:\n%s", c.unknown, all)
			}
		})
	}
}

// TestConfigured: the times of an election come first, and are recommended only
// if they are the best.
func TestConfigured(t *testing.T) {
	own := &quorum.Profile{Name: "configured", Heartbeat: 20 * time.Millisecond, Promise: 80 * time.Millisecond, Slot: 5 * time.Millisecond}
	v := doctor.Judge(measured(func(m *doctor.Measurements) { m.Pauses.Max = 8 * ms }), 5, own)
	if j := v.Profiles[0]; j.Name != "configured" || j.Fit != doctor.Tight || len(v.Profiles) != 5 {
		t.Errorf("%+v", v.Profiles)
	}
	if v.Recommended != "fast" {
		t.Errorf("recommended %q", v.Recommended)
	}
	// 80 ms and 5 + 2 slots of 5 ms, on a clock that is 5 % slow.
	if got, want := time.Duration(v.Profiles[0].Takeover).Round(time.Millisecond), 121*time.Millisecond; got != want {
		t.Errorf("worst takeover %v; want %v", got, want)
	}
}
