package cli

import (
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/electd/elect/internal/cli/exit"
)

// Output is the value of --output.
type Output string

// String makes it a flag's value, with Type and Set.
func (o *Output) String() string { return string(*o) }
func (o *Output) Type() string   { return "format" }
func (o *Output) Set(text string) error {
	if text != "table" && text != "json" {
		return exit.Usagef("want table or json")
	}
	*o = Output(text)
	return nil
}

// Flag adds it to a verb's flags.
func (o *Output) Flag(set *pflag.FlagSet) {
	*o = "table"
	set.VarP(o, "output", "o", "`FORMAT` of the answer: table for people, or json (stable)")
}

// WriteJSON writes one line.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// AtTerminal reports whether the file is a terminal with more abilities than printing lines.
func AtTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// Colour reports whether to use colours: on a terminal, unless NO_COLOR says
// otherwise (no-color.org).
func Colour(f *os.File) bool { return os.Getenv("NO_COLOR") == "" && AtTerminal(f) }
