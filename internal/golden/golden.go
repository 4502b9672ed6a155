// Package golden runs transcripts: text files of commands, each with its expected output. A person can read them as a
// story, and a changed story shows as a diff. The form is that of cockroachdb/datadriven:
//
//	# A comment.
//	command arg key=value
//	lines of input
//	----
//	lines of expected output
//
// A blank line ends a block. Tests run in one goroutine per file. A file that cannot be read or is malformed fails
// its test; with rewrite, the files get the actual output and the test passes: review the diff.
package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Command is one command of a transcript.
type Command struct {
	Line  int // its line number, from 1
	Name  string
	Args  []string
	Input string // with a newline at the end of each line
}

// Get returns the value of the argument key=value, or other if there is none.
func (c *Command) Get(key, other string) string {
	for _, a := range c.Args {
		if v, ok := strings.CutPrefix(a, key+"="); ok {
			return v
		}
	}
	return other
}

// Has reports whether word is one of the arguments.
func (c *Command) Has(word string) bool {
	return slices.Contains(c.Args, word)
}

// Run runs each file that matches the pattern as a subtest. start begins a file and returns a function that answers
// its commands, in order.
func Run(t *testing.T, pattern string, rewrite bool, start func(t *testing.T) func(Command) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("golden: no file matches %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			actual, diffs, err := replay(string(data), start(t))
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			if rewrite {
				if actual != string(data) {
					if err := os.WriteFile(file, []byte(actual), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				return
			}
			for _, d := range diffs {
				t.Errorf("%s:%s", file, d)
			}
		})
	}
}

// Play runs the commands of one transcript and ignores the expected output.
func Play(text string, do func(Command) string) error {
	_, _, err := replay(text, do)
	return err
}

// replay returns the transcript with the actual output, and each difference.
func replay(text string, do func(Command) string) (actual string, diffs []string, err error) {
	var b strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		b.WriteString(line + "\n")
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		fields := strings.Fields(line)
		c := Command{Line: i + 1, Name: fields[0], Args: fields[1:]}
		for i++; ; i++ {
			if i == len(lines) || lines[i] == "" {
				return "", nil, fmt.Errorf("%d: %s: no ---- after the command", c.Line, c.Name)
			}
			b.WriteString(lines[i] + "\n")
			if lines[i] == "----" {
				break
			}
			c.Input += lines[i] + "\n"
		}
		var expected strings.Builder
		for i+1 < len(lines) && lines[i+1] != "" {
			i++
			expected.WriteString(lines[i] + "\n")
		}
		got := do(c)
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if strings.HasPrefix(got, "\n") || strings.Contains(got, "\n\n") {
			return "", nil, fmt.Errorf("%d: %s: the output has a blank line, which a transcript cannot hold", c.Line, c.Name)
		}
		b.WriteString(got)
		if got != expected.String() {
			diffs = append(diffs, fmt.Sprintf("%d: %s\n%s", c.Line, line, diff(expected.String(), got)))
		}
	}
	return b.String(), diffs, nil
}

// diff shows where two outputs begin to differ.
func diff(expected, got string) string {
	e, g := strings.SplitAfter(expected, "\n"), strings.SplitAfter(got, "\n")
	same := 0
	for same < len(e) && same < len(g) && e[same] == g[same] {
		same++
	}
	var b strings.Builder
	for _, l := range e[:same] {
		b.WriteString("  " + l)
	}
	for _, l := range e[same:] {
		if l != "" {
			b.WriteString("- " + l)
		}
	}
	for _, l := range g[same:] {
		if l != "" {
			b.WriteString("+ " + l)
		}
	}
	return b.String()
}
