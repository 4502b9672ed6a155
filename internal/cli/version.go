package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build describes this program; the fields of -o json.
type build struct {
	Version  string `json:"version"`            // of the module; "(devel)" for a working tree
	Revision string `json:"revision,omitempty"` // of the repository, if known
	Modified bool   `json:"modified,omitempty"` // the working tree differed from it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	var format Output
	cmd := &cobra.Command{
		Use:   "version [flags]",
		Short: "show the version of this program",
		Long: `Show the version of this program, the revision that it was built from, if known, the
version of Go, and the platform.

-o json writes one object on one line: version, revision, modified, go, platform.
revision is omitted if it is not known, modified if it is false.`,
		Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := FromEnvironment(cmd); err != nil {
				return err
			}
			return showVersion(cmd, format)
		},
	}
	format.Flag(cmd.Flags())
	return cmd
}

func showVersion(cmd *cobra.Command, format Output) error {
	b := readBuild()
	if format == "json" {
		return WriteJSON(cmd.OutOrStdout(), b)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s %s\n", cmd.Root().Name(), b.program(), b.Go, b.Platform)
	return err
}

// Version is the version of this program's module.
func Version() string { return readBuild().Version }

// Program names this build in output for others: its version, and the revision if known.
func Program() string { return readBuild().program() }

func (b build) program() string {
	text := b.Version
	if b.Revision != "" {
		text += " " + b.Revision
	}
	if b.Modified {
		text += " modified"
	}
	return text
}

func readBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
