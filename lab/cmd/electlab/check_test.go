package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/check"
)

// TestKeepTrail: --replay reads what --keep writes, and a trail that cannot be written is an error.
func TestKeepTrail(t *testing.T) {
	want := &check.Trail{
		World: check.World{Mode: check.Async, Nodes: 3, Terms: 1, Messages: 2, Fires: 1},
		Steps: []check.Step{{}},
	}
	kept := filepath.Join(t.TempDir(), "kept.json")
	if err := keepTrail(kept, want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(kept)
	if err != nil || !bytes.HasSuffix(got, []byte("}\n")) {
		t.Fatalf("%q, %v", got, err)
	}
	again := &check.Trail{}
	if err := json.Unmarshal(got, again); err != nil || again.World.Nodes != want.World.Nodes || len(again.Steps) != len(want.Steps) {
		t.Errorf("%+v, %v; want %+v", again, err, want)
	}
	if v, err := again.Replay(); err != nil || v != nil {
		t.Errorf("replayed: %v, %v", v, err)
	}
	if code, tell := exit.Of(keepTrail(filepath.Join(t.TempDir(), "none", "kept.json"), want)); code != exit.CannotCreate || !tell {
		t.Errorf("code %d, told %t", code, tell)
	}
}
