package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/internal/place"
	"github.com/electd/elect/internal/protocol"
)

// TestHost: a host keeps its id, and counts its starts.
func TestHost(t *testing.T) {
	at := place.At{Path: t.TempDir(), Below: []string{"n1"}}
	first, err := OpenHost(t.Context(), at, "elect", "n1")
	if err != nil || first.Starts != 1 || first.Dir == dirOf(0) {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := OpenHost(t.Context(), at, "elect", "n1")
	if want := (Host{"elect", "n1", first.Dir, 2}); err != nil || second != want {
		t.Errorf("%+v, %v; want %+v", second, err, want)
	}
	for _, c := range []struct {
		cluster string
		id      protocol.NodeID
		want    string
	}{
		{"prod", "n1", `it belongs to n1 in the cluster "elect", and not to n1 in the cluster "prod"`},
		{"elect", "n2", `it belongs to n1 in the cluster "elect", and not to n2`},
	} {
		_, err := OpenHost(t.Context(), at, c.cluster, c.id)
		if refused, ok := errors.AsType[*Refused](err); !ok || !strings.Contains(refused.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
	path := filepath.Join(at.String(), identityName)
	text, err := encodeIdentity(Identity{Cluster: "elect", Election: "jobs", ID: "n1", Dir: dirOf(1)}, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{string(text), "x", sealLine(`{"format":1,"cluster":"c","id":"n1","dir":"01000000000000000000000000000000","starts":0}`)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenHost(t.Context(), at, "elect", "n1")
		if _, ok := errors.AsType[*Refused](err); !ok {
			t.Errorf("%.30q: %v; want it refused", bad, err)
		}
		if bad == string(text) && !strings.Contains(err.Error(), `that of a data directory, of n1 of the election "jobs"`) {
			t.Errorf("%v; want that it is a data directory", err)
		}
	}
}

// TestHostLayout: the file as it is on the disk.
func TestHostLayout(t *testing.T) {
	text, err := encodeHost(Host{Cluster: "elect", ID: "n1", Dir: dirOf(1), Starts: 7})
	if want := `{"format":1,"cluster":"elect","id":"n1","dir":"01000000000000000000000000000000","starts":7}
`; err != nil || !strings.HasPrefix(string(text), want+"crc32c ") {
		t.Errorf("identity:\n%s\nwant:\n%s", text, want)
	}
}

// FuzzHost: whatever is read encodes to what reads the same.
func FuzzHost(f *testing.F) {
	f.Add(`{"format":1,"cluster":"elect","id":"n1","dir":"01000000000000000000000000000000","starts":7}`)
	f.Add(`{"format":1}`)
	f.Fuzz(func(t *testing.T, line string) {
		h, err := decodeHost([]byte(sealLine(line)))
		if err != nil {
			return
		}
		again, err := encodeHost(h)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := decodeHost(again); err != nil || other != h {
			t.Fatalf("%+v became %+v: %v", h, other, err)
		}
	})
}

// TestFormer: only what has a ballot, or says whose it is, is a directory of before.
func TestFormer(t *testing.T) {
	data := t.TempDir()
	old, now := place.At{Path: data, Below: []string{"jobs", "n1"}}, place.At{Path: data, Below: []string{"n1", Elections, "jobs"}}
	if err := Former(old, now); err != nil {
		t.Errorf("nothing is there: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(old.String(), identityName), 0o700); err != nil { // an election of that name, of a host of the other one's
		t.Fatal(err)
	}
	if err := Former(old, now); err != nil {
		t.Errorf("a directory that has no votes: %v", err)
	}
	if err := os.WriteFile(filepath.Join(old.String(), ballotName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Former(old, now)
	if _, ok := errors.AsType[*Refused](err); !ok || !strings.Contains(err.Error(), now.String()) {
		t.Errorf("%v; want it refused, and where it is wanted", err)
	}
}
