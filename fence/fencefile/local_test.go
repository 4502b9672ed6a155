package fencefile

import (
	"strings"
	"testing"

	"github.com/electd/elect/internal/localfs"
)

func TestJudge(t *testing.T) {
	for _, name := range []string{"NFS", "SMB2", "CIFS"} {
		if _, err := judge("/x", localfs.System{Kind: localfs.Network, Name: name}); err == nil || !strings.Contains(err.Error(), "/x is on "+name+",") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for kind, want := range map[localfs.Kind]string{localfs.FUSE: "FUSE", localfs.Memory: "memory"} {
		if warnings, err := judge("/x", localfs.System{Kind: kind}); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], want) {
			t.Errorf("%s: %q, %v", want, warnings, err)
		}
	}
	if warnings, err := judge("/x", localfs.System{}); len(warnings) > 0 || err != nil {
		t.Errorf("a local one: %q, %v", warnings, err)
	}
}
