package gallery_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/electd/elect/internal/race"
	"github.com/electd/elect/lab/sim/picture/gallery"
)

var rewrite = flag.Bool("rewrite", false, "write the pictures into docs/pictures")

const folder = "../../../../docs/pictures"

func TestMain(m *testing.M) { os.Exit(race.Main(m)) }

// TestFresh holds that docs/pictures has exactly the pictures that are drawn now.
func TestFresh(t *testing.T) {
	want := make(map[string]bool)
	for _, p := range gallery.All() {
		file := p.Name + ".svg"
		want[file] = true
		var b bytes.Buffer
		if err := p.SVG(&b); err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if *rewrite {
			if err := os.WriteFile(filepath.Join(folder, file), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		has, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil || !bytes.Equal(has, b.Bytes()) {
			t.Errorf("docs/pictures/%s is stale (%v); run: go generate ./lab/sim/picture/gallery", file, err)
		}
	}
	all, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !want[f.Name()] {
			t.Errorf("docs/pictures/%s is not a picture of the gallery", f.Name())
		}
	}
}
