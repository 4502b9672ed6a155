package stamp

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The program with a last word says when it was told to end, and ends; other
// signals do not make it speak.
func TestLastWord(t *testing.T) {
	if !Native {
		t.Skip("there is no such program here")
	}
	command, err := BuildLast(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0])
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	first, err := Read(r)
	if err != nil || first.Over || first.Ready || first.PID != cmd.Process.Pid {
		t.Fatalf("the first record: %+v, %v", first, err)
	}
	status := "/proc/" + strconv.Itoa(first.PID) + "/status"
	for end := time.Now().Add(30 * time.Second); ; { // nothing else can make it sleep
		if text, err := os.ReadFile(status); err == nil && strings.Contains(string(text), "State:\tS") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not wait for SIGTERM")
		}
	}
	for _, sig := range []os.Signal{syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGCONT} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	before := Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	last, err := Read(r)
	if err != nil || !last.Over || last.Ready || last.PID != first.PID || last.At < before || last.At > Now() {
		t.Errorf("the last record: %+v, %v; want it over, between %v and %v", last, err, before, Now())
	}
	if _, err := Read(r); err != io.EOF {
		t.Errorf("after its last word: %v; want the end", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v; want 0", err)
	}
}
