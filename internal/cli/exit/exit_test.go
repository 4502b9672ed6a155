package exit

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// codes are all constants of this package that are codes of the command's own.
var codes = map[string]int{
	"OK": OK, "NoLeader": NoLeader, "Usage": Usage, "Unavailable": Unavailable, "CannotCreate": CannotCreate,
	"Lost": Lost, "NotPermitted": NotPermitted, "Safety": Safety, "Liveness": Liveness, "Crash": Crash, "NotExhausted": NotExhausted, "Overrun": Overrun, "TooEarly": TooEarly, "NoProc": NoProc, "WaitOver": WaitOver, "NotExecutable": NotExecutable, "NotFound": NotFound,
}

func TestNumbersAreThePublishedOnes(t *testing.T) {
	want := map[string]int{ // sysexits.h, timeout(1), POSIX's shell
		"OK": 0, "NoLeader": 3, "Usage": 64, "Unavailable": 69, "CannotCreate": 73, "Lost": 75, "NotPermitted": 77,
		"Safety": 80, "Liveness": 81, "Crash": 82, "NotExhausted": 83, "Overrun": 84, "TooEarly": 85, "NoProc": 72,
		"WaitOver": 124, "NotExecutable": 126, "NotFound": 127,
	}
	for name, code := range codes {
		if code != want[name] {
			t.Errorf("%s is %d, and scripts rely on %d", name, code, want[name])
		}
	}
	if got := BySignal(syscall.SIGTERM); got != 143 {
		t.Errorf("BySignal(SIGTERM) = %d, want 143", got)
	}
}

// documents are the pages that have the codes of each command.
var documents = map[string]string{elect: "command.md", electlab: "electlab.md"}

// TestHelpAndDocumentHaveAllCodes: each constant is a code of some command, and the
// document of each command has the codes that its help has.
func TestHelpAndDocumentHaveAllCodes(t *testing.T) {
	var all []int
	for command, name := range documents {
		var rows []int
		for line := range strings.Lines(Table(command)) {
			fields := strings.Fields(line)
			if len(line) > 100 || len(fields) < 2 {
				t.Errorf("%q is too wide for a terminal, or does not say what the code means", line)
			}
			if code, err := strconv.Atoi(fields[0]); err == nil {
				rows = append(rows, code)
			}
		}
		if !slices.IsSorted(rows) {
			t.Errorf("the codes %v are not in order", rows)
		}
		all = append(all, rows...)
		if command == elect {
			if !strings.Contains(Table(command), "128+n ") {
				t.Errorf("the topic does not say 128+n:\n%s", Table(command))
			}
			rows = append([]int{0, 1}, rows[1:]...) // 1 is among the others in the topic
		}
		if got := documented(t, name); !slices.Equal(got, rows) {
			t.Errorf("docs/%s has the codes %v, and the help of %s %v", name, got, command, rows)
		}
	}
	for name, code := range codes {
		if !slices.Contains(all, code) {
			t.Errorf("%s (%d) is a code of no command", name, code)
		}
	}
}

// documented are the codes in the section Exit codes of a document, in its order.
func documented(t *testing.T, name string) (all []int) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Exit codes\n")
	if !ok {
		t.Fatalf("%s has no section Exit codes", name)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| *([0-9][0-9, ]*) *\|`).FindAllStringSubmatch(section, -1) {
		for text := range strings.SplitSeq(row[1], ",") {
			code, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, code)
		}
	}
	return all
}

func TestOf(t *testing.T) {
	plain := errors.New("plain")
	for name, c := range map[string]struct {
		err  error
		code int
		tell bool
	}{
		"nothing":        {nil, OK, false},
		"not classified": {plain, Unavailable, true},
		"silent":         {Silent(WaitOver), WaitOver, false},
		"silent success": {Silent(OK), OK, false},
		"with":           {With(Lost, plain), Lost, true},
		"wrapped":        {fmt.Errorf("outer: %w", With(NotFound, plain)), NotFound, true},
		"usage":          {Usagef("%d", 1), Usage, true},
	} {
		t.Run(name, func(t *testing.T) {
			if code, tell := Of(c.err); code != c.code || tell != c.tell {
				t.Errorf("Of(%v) = %d, %t; want %d, %t", c.err, code, tell, c.code, c.tell)
			}
		})
	}
	if err := With(Lost, plain); !errors.Is(err, plain) || err.Error() != "plain" {
		t.Errorf("%q hides its cause", err)
	}
}
