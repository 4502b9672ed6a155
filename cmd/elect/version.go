package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what is known about this program; the fields of -o json.
type build struct {
	Version  string `json:"version"`            // of the module; "(devel)" for a working tree
	Revision string `json:"revision,omitempty"` // of the repository, where it is known
	Modified bool   `json:"modified,omitempty"` // the working tree differed from it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:   "version [flags]",
		Short: "show the version of this program",
		Long: `Show the version of this program, the revision that it was built from where that
is known, the version of Go and the platform.

-o json writes one object on one line: version, revision, modified, go, platform.
revision and modified are left out when there is nothing to say.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			return showVersion(cmd.OutOrStdout(), format)
		},
	}
	format.flag(cmd.Flags())
	return cmd
}

func showVersion(w io.Writer, format output) error {
	b := readBuild()
	if format == "json" {
		return writeJSON(w, b)
	}
	text := "elect " + b.Version
	if b.Revision != "" {
		text += " " + b.Revision
	}
	if b.Modified {
		text += " modified"
	}
	_, err := fmt.Fprintf(w, "%s %s %s\n", text, b.Go, b.Platform)
	return err
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
