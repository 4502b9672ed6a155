package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/cmd/elect/internal/doctor"
)

// TestMeasure measures a short time for real: what is found is possible, and
// nothing stays behind.
func TestMeasure(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	shut, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shut.Close()
	dir := t.TempDir()
	m, err := doctor.Measure(t.Context(), doctor.Config{
		Data: filepath.Join(dir, "not", "there"), For: 50 * time.Millisecond,
		Peers: []doctor.Target{{"n1", open.Addr().String()}, {"n2", shut.Addr().String()}, {"n3", "127.0.0.1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := m.Pauses; p.Samples < 2 || p.P50 < 0 || p.P50 > p.P99 || p.P99 > p.Max {
		t.Errorf("pauses: %+v", p)
	}
	d := m.Disk
	if d.Error != "" || d.Dir != dir || d.For != filepath.Join(dir, "not", "there") || d.Sync.Samples < 200 || d.Sync.P50 <= 0 || d.Sync.P50 > d.Sync.Max {
		t.Errorf("disk: %+v", d)
	}
	if p := m.Peers[0]; !p.Listens || p.RTT.Samples < 20 || p.RTT.P50 <= 0 || p.Error != "" {
		t.Errorf("a peer that listens: %+v", p)
	}
	if p := m.Peers[1]; p.Listens || p.RTT.Samples < 20 || p.Error != "" {
		t.Errorf("a peer that refuses: %+v", p)
	}
	if p := m.Peers[2]; p.RTT.Samples != 0 || !strings.Contains(p.Error, "port") {
		t.Errorf("an address without a port: %+v", p)
	}
	if m.Took < doctor.Millis(50*time.Millisecond) || m.CPUs < 1 || m.System == "" {
		t.Errorf("%+v", m)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}

	// The report has all of it, for people and for machines.
	r := &doctor.Report{Measurements: m, Verdict: doctor.Judge(m, 3, nil)}
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{dir, "n3 at 127.0.0.1: ", "PROFILE", "recommended: "} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, &text)
		}
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Disk     struct{ Sync map[string]float64 }
		Profiles []struct {
			Name     string
			Takeover float64 `json:"worst_takeover_ms"`
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Disk.Sync["samples"] < 200 || got.Disk.Sync["p99_ms"] <= 0 || got.Profiles[0].Name != "lan" || int(got.Profiles[0].Takeover) != 1184 {
		t.Errorf("%s", raw)
	}
}

func TestMeasureTrouble(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := doctor.Measure(t.Context(), doctor.Config{Data: plain, For: time.Millisecond})
	if err != nil || !strings.Contains(m.Disk.Error, "is not a directory") || m.Pauses.Samples == 0 {
		t.Errorf("%+v, %v", m, err)
	}

	// Told to end, it ends, and leaves nothing.
	dir, why := t.TempDir(), errors.New("told to end")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, err := doctor.Measure(ctx, doctor.Config{Data: dir, For: time.Hour}); !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
