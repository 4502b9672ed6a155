//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/electd/elect/internal/harness"
)

// TestStateDirectory: an agent whose state directory is full activates nothing, because it could not be known after a
// crash, and says that it has not kept a pause; one whose directory becomes read-only demotes again and again, and does
// not stand before that is kept. It needs root, for mounts in a namespace of its own.
func TestStateDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it mounts a file system")
	}
	harness.Need(t, "unshare", "util-linux")
	harness.Need(t, "curl", "curl")
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", `id: a
state: state
http: {listen: 'unix:a.sock'}
elections:
  - {name: job, election: 'file:place', rest: 1s, hooks: {activate: 'true', demote: 'true'}}
`)
	write("run", `
until_says() { until grep -q "$2" "$1"; do kill -0 $elect || exit 1; sleep 0.02; done; }
mkdir state && mount -t tmpfs -o size=16k,mode=700 none state || exit
dd if=/dev/zero of=state/fill bs=1k count=64 2>dd
elect agent --config a.yaml 2>full & elect=$!
until_says full 'released job'
curl -s --unix-socket a.sock -X POST http://localhost/v1/elections/job/pause >pause
rm state/fill
until_says full 'the hook activate has run'
mount -o remount,ro state
curl -s --unix-socket a.sock -X POST http://localhost/v1/elections/job/resign >resign
until_says full 'it is demoted before this candidate stands'
until test $(grep -c 'cannot be removed' full) -gt 2; do sleep 0.02; done
cp full before
mount -o remount,rw state
until test $(grep -c 'the hook activate has run' full) -gt 1; do sleep 0.02; done
kill $elect && wait $elect && test ! -e state/job.active
`)
	cmd := exec.CommandContext(t.Context(), "timeout", "60", "unshare", "--mount", "sh", "run")
	cmd.Dir, cmd.Env = dir, append(environment(t), "XDG_STATE_HOME="+filepath.Join(dir, "home"))
	out, err := cmd.CombinedOutput()
	full := read(t, filepath.Join(dir, "full"))
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, full)
	}
	for name, want := range map[string]string{
		"full":   `(?s)^.*ill: it cannot be kept that this term was activated: .*no space left on device\n.*released job`,
		"pause":  `"status":502,"detail":".*no space left on device"`,
		"before": `(?s)released job \(token \d+\)\n(elect: job: (the term with token \d+ was activated and not demoted; [^\n]*|the hook demote has run, [^\n]*|the record of an activation cannot be removed: [^\n]*read-only file system)\n)+$`,
	} {
		if text := read(t, filepath.Join(dir, name)); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s:\n%s\nwant %s", name, text, want)
		}
	}
}
