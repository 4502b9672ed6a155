package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFresh holds that the committed dist is what the sources give.
func TestFresh(t *testing.T) {
	want, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range want {
		has, err := os.ReadFile(filepath.Join(dist(".."), name))
		if err != nil || !bytes.Equal(has, data) {
			t.Errorf("dist/%s is stale (%v); run: go generate ./lab/page/build", name, err)
		}
	}
	all, err := os.ReadDir(dist(".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if want[f.Name()] == nil {
			t.Errorf("dist/%s comes from no source; run: go generate ./lab/page/build", f.Name())
		}
	}
}
