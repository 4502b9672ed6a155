package stamp

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets this program be the measuring program where no other can be
// made, and in TestFallback.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "stamp" {
		memory, err := strconv.ParseUint(os.Args[2], 10, 64)
		if err == nil {
			err = Main(memory)
		}
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func fallback(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, "stamp"}
}

func TestBuild(t *testing.T) {
	for _, memory := range []uint64{0, 8 << 20} {
		t.Run(strconv.FormatUint(memory, 10), func(t *testing.T) {
			command, err := Build(t.TempDir(), memory, fallback(t))
			if err != nil {
				t.Fatal(err)
			}
			if Native {
				if info, err := os.Stat(command[0]); err != nil || info.Size() > 512 {
					t.Errorf("the program has %d bytes (%v), want at most 512", info.Size(), err)
				}
			}
			tryProgram(t, command, memory)
		})
	}
}

func TestFallback(t *testing.T) {
	for _, memory := range []uint64{0, 8 << 20} {
		t.Run(strconv.FormatUint(memory, 10), func(t *testing.T) {
			tryProgram(t, append(fallback(t), strconv.FormatUint(memory, 10)), memory)
		})
	}
}

// tryProgram runs it, and reads what it writes until it is killed.
func tryProgram(t *testing.T, command []string, memory uint64) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A program that hangs fails the test, and does not hang it.
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	before := Now()
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	first, err := Read(r)
	if err != nil {
		t.Fatal(err)
	}
	last, after := first, Now()
	if first.PID != cmd.Process.Pid || first.Ready {
		t.Errorf("the record is %+v; want one of process %d, not ready", first, cmd.Process.Pid)
	}
	if memory > 0 {
		if last, err = Read(r); err != nil {
			t.Fatal(err)
		}
		after = Now()
		if last.PID != cmd.Process.Pid || !last.Ready {
			t.Errorf("the second record is %+v; want one of process %d, ready", last, cmd.Process.Pid)
		}
		if held := resident(t, cmd.Process.Pid); held < memory {
			t.Errorf("it has touched %d bytes when it says so, want %d", held, memory)
		}
	}
	if first.At < before || last.At < first.At || after < last.At {
		t.Errorf("the times are %v (before), %v, %v, %v (after)", before, first.At, last.At, after)
	}

	// It goes on until it is ended.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("it wrote %x (%v), want the end and nothing else", rest, err)
	}
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() && status.ExitStatus() != 143 {
		t.Errorf("it ended with %v, want an end by SIGTERM", cmd.ProcessState)
	}
}

// resident returns how much memory a process has, where that can be seen.
func resident(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Logf("memory cannot be seen here: %v", err)
		return 1 << 62
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no VmRSS in:\n%s", text)
	return 0
}

// TestMemoryRefused asks for more than a process can have.
func TestMemoryRefused(t *testing.T) {
	if !Native {
		t.Skip("Go's runtime ends by itself")
	}
	command, err := Build(t.TempDir(), 1<<62, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), command[0]).Output()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	if record, err := Read(bytes.NewReader(out)); err != nil || record.Ready || len(out) != Size {
		t.Errorf("it wrote %x, want the first record only", out)
	}
}

func TestRecord(t *testing.T) {
	want := Record{At: 3*time.Hour + 7, PID: 4711, Ready: true}
	b := want.appendTo([]byte("x"))[1:]
	if len(b) != Size {
		t.Fatalf("a record has %d bytes, want %d", len(b), Size)
	}
	if got, err := Read(bytes.NewReader(b)); err != nil || got != want {
		t.Errorf("Read = %+v, %v; want %+v", got, err, want)
	}
	if _, err := Read(bytes.NewReader(b[:Size-1])); err != io.ErrUnexpectedEOF {
		t.Errorf("a part of a record: %v, want %v", err, io.ErrUnexpectedEOF)
	}
	if _, err := Read(bytes.NewReader(nil)); err != io.EOF {
		t.Errorf("the end: %v, want %v", err, io.EOF)
	}
	binary.NativeEndian.PutUint64(b[8:], uint64(time.Second))
	if got, err := Read(bytes.NewReader(b)); err == nil {
		t.Errorf("a second of nanoseconds was taken for %+v", got)
	}
	if got, err := Read(strings.NewReader("hello, this is some text of a command")); err == nil {
		t.Errorf("text was taken for %+v", got)
	}
}
