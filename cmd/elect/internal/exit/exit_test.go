package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/electd/elect"
	"github.com/electd/elect/peer"
)

// codes are all constants of this package that are codes of the command's own.
var codes = map[string]int{
	"OK": OK, "NoLeader": NoLeader, "Usage": Usage, "Unavailable": Unavailable, "CannotCreate": CannotCreate,
	"Lost": Lost, "NotPermitted": NotPermitted, "Safety": Safety, "Liveness": Liveness, "Crash": Crash, "NotExhausted": NotExhausted, "Overrun": Overrun, "NoProc": NoProc, "WaitOver": WaitOver, "NotExecutable": NotExecutable, "NotFound": NotFound,
}

func TestNumbersAreThePublishedOnes(t *testing.T) {
	want := map[string]int{ // sysexits.h, timeout(1), POSIX's shell
		"OK": 0, "NoLeader": 3, "Usage": 64, "Unavailable": 69, "CannotCreate": 73, "Lost": 75, "NotPermitted": 77,
		"Safety": 80, "Liveness": 81, "Crash": 82, "NotExhausted": 83, "Overrun": 84, "NoProc": 72,
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

// TestHelpHasAllCodes compares the help topic with the constants.
func TestHelpHasAllCodes(t *testing.T) {
	var rows []int
	lines := slices.Collect(strings.Lines(Table()))
	for _, line := range lines {
		if len(line) > 100 {
			t.Errorf("%q is too wide for a terminal", line)
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			t.Fatalf("%q does not say what the code means", line)
		}
		if code, err := strconv.Atoi(fields[0]); err == nil {
			rows = append(rows, code)
		}
	}
	if !slices.IsSorted(rows) {
		t.Errorf("the codes %v are not in order", rows)
	}
	for name, code := range codes {
		if !slices.Contains(rows, code) {
			t.Errorf("%s (%d) is missing in:\n%s", name, code, Table())
		}
	}
	if len(rows) != len(codes) {
		t.Errorf("the topic has the codes %v, and the package %v", rows, codes)
	}
	if !strings.Contains(Table(), "128+n ") {
		t.Errorf("the topic does not say 128+n:\n%s", Table())
	}
}

// TestDocumentHasAllCodes compares the table of docs/command.md.
func TestDocumentHasAllCodes(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Exit codes\n")
	if !ok {
		t.Fatal("the document has no section Exit codes")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []int
	for _, row := range regexp.MustCompile(`(?m)^\| *([0-9][0-9, ]*) *\|`).FindAllStringSubmatch(section, -1) {
		for text := range strings.SplitSeq(row[1], ",") {
			code, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, code)
		}
	}
	if !slices.IsSorted(rows) {
		t.Errorf("the codes %v are not in order", rows)
	}
	for name, code := range codes {
		if !slices.Contains(rows, code) {
			t.Errorf("%s (%d) is missing in the document, which has %v", name, code, rows)
		}
	}
	if !slices.Contains(rows, 1) { // bench and demo have no constant for it
		t.Errorf("1 is missing in the document, which has %v", rows)
	}
	if len(rows) != len(codes)+1 {
		t.Errorf("the document has the codes %v, and the package %v", rows, codes)
	}
}

func TestOf(t *testing.T) {
	plain := errors.New("plain")
	denied := fmt.Errorf("mkdir /x: %w", &fs.PathError{Op: "mkdir", Path: "/x", Err: syscall.EACCES})
	for name, c := range map[string]struct {
		err  error
		code int
		tell bool
	}{
		"nothing":                   {nil, OK, false},
		"not classified":            {plain, Unavailable, true},
		"silent":                    {Silent(WaitOver), WaitOver, false},
		"silent success":            {Silent(OK), OK, false},
		"with":                      {With(Lost, plain), Lost, true},
		"not permitted":             {OfBackend(fmt.Errorf("resign: %w", peer.ErrNotPermitted)), NotPermitted, true},
		"wrapped":                   {fmt.Errorf("outer: %w", With(NotFound, plain)), NotFound, true},
		"usage":                     {Usagef("%d", 1), Usage, true},
		"opening":                   {OfOpening(plain), Usage, true},
		"opening denied":            {OfOpening(denied), CannotCreate, true},
		"opening, input and output": {OfOpening(fmt.Errorf("fsync: %w", syscall.EIO)), CannotCreate, true},
		"opening, said":             {OfOpening(fmt.Errorf("election x: %w", With(Unavailable, plain))), Unavailable, true},
		"opening fine":              {OfOpening(nil), OK, false},
		"back end":                  {OfBackend(plain), Unavailable, true},
		"back end denied":           {OfBackend(denied), CannotCreate, true},
		"back end read-only":        {OfBackend(syscall.EROFS), CannotCreate, true},
		"back end full":             {OfBackend(fmt.Errorf("write: %w", syscall.ENOSPC)), CannotCreate, true},
		"back end over quota":       {OfBackend(syscall.EDQUOT), CannotCreate, true},
		"back end, no leader":       {OfBackend(fmt.Errorf("x: %w", elect.ErrNoLeader)), NoLeader, true},
		"back end, input, output":   {OfBackend(syscall.EIO), CannotCreate, true},
		"back end, not reached":     {OfBackend(fmt.Errorf("dial: %w", syscall.ECONNREFUSED)), Unavailable, true},
		"back end fine":             {OfBackend(nil), OK, false},
	} {
		t.Run(name, func(t *testing.T) {
			if code, tell := Of(c.err); code != c.code || tell != c.tell {
				t.Errorf("Of(%v) = %d, %t; want %d, %t", c.err, code, tell, c.code, c.tell)
			}
		})
	}
	for _, err := range []error{With(Lost, plain), OfOpening(plain), OfBackend(plain)} {
		if !errors.Is(err, plain) || err.Error() != "plain" {
			t.Errorf("%q hides its cause", err)
		}
	}
}
