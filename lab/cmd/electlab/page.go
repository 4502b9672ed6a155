package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
	"github.com/electd/elect/lab/page"
)

const pageHelp = `Serve the laboratory as a page for a browser, and print its URL. The machines run in the
browser, compiled to WebAssembly: nothing is computed here, and nothing is sent anywhere.

--write makes a folder with the same files instead. Any file server can serve it, below
any path, without configuration.

If this electlab does not contain the machines, the Go toolchain compiles them, in a
clone of the repository, which takes about a minute the first time. They are kept in the
user's cache.

The server listens on the loopback interface, or at --listen. It answers requests whose
Host is an IP address, localhost or the host of --listen. SIGINT and SIGTERM end it.

Exit codes:
  0    the folder is written; a signal ended the server
  64   the command line is wrong
  69   the machines cannot be compiled, or the address cannot be listened on
  73   the folder or stdout cannot be written`

type pageRun struct {
	listen, write string
	open          bool
}

func newPage() *cobra.Command {
	r := &pageRun{}
	cmd := &cobra.Command{
		Use:     "page [flags]",
		Short:   "serve the laboratory as a page for a browser",
		Long:    pageHelp,
		Example: "  electlab page --open\n  electlab page --write public/lab",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			return r.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.listen, "listen", "127.0.0.1:0", "listen on `HOST:PORT`; port 0 is a free one")
	f.BoolVar(&r.open, "open", false, "open the page in the user's browser")
	f.StringVar(&r.write, "write", "", "write the files into `DIR`, and serve nothing")
	return cmd
}

func (r *pageRun) run(cmd *cobra.Command) error {
	host, _, err := net.SplitHostPort(r.listen)
	switch {
	case err != nil:
		return exit.Usagef("--listen %q is no address; want HOST:PORT, such as 127.0.0.1:8080", r.listen)
	case cmd.Flags().Changed("write") && r.write == "":
		return exit.Usagef("--write names no folder; want one to write, such as public/lab")
	case r.write != "" && (r.open || cmd.Flags().Changed("listen")):
		return exit.Usagef("--write serves nothing; want it without --listen and --open")
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	say := func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "electlab: %s\n", text) }
	site, err := page.Open(ctx, say)
	switch {
	case ctx.Err() != nil:
		return byInterrupt()
	case err != nil:
		return exit.With(exit.Unavailable, err)
	case r.write != "":
		if err := site.Write(r.write); err != nil {
			return exit.With(exit.CannotCreate, err)
		}
		return nil
	}
	var names []string
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		names = append(names, host)
	}
	l, err := net.Listen("tcp", r.listen)
	if err != nil {
		return exit.With(exit.Unavailable, err)
	}
	return r.serve(ctx, cmd, l, site.Handler(names...))
}

// serve answers until ctx ends.
func (r *pageRun) serve(ctx context.Context, cmd *cobra.Command, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	unhook := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer unhook()
	out := &answer{out: cmd.OutOrStdout()}
	url := "http://" + l.Addr().String() + "/"
	if fmt.Fprintln(out, url); out.err != nil {
		_ = l.Close()
		return out.err
	}
	var opening sync.WaitGroup
	defer opening.Wait()
	if r.open {
		opening.Go(func() {
			if err := browse(ctx, url); err != nil && ctx.Err() == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "electlab: no browser was started: %v\n", err)
			}
		})
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return exit.With(exit.Unavailable, err)
	}
	return nil
}

// browse starts the user's browser.
func browse(ctx context.Context, url string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.CommandContext(ctx, "open", url).Run()
	case "windows":
		return exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", url).Run()
	}
	return exec.CommandContext(ctx, "xdg-open", url).Run()
}
