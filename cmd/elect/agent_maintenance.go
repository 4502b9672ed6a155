package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/config"
	"github.com/electd/elect/cmd/elect/internal/runner"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/internal/cli"
	"github.com/electd/elect/internal/cli/exit"
)

const maintenanceHelp = `Turn the maintenance of an agent on or off. While it is on, no election of this agent
stands: leaders demote and hand over, and peers go on to vote. It lasts over restarts
and reboots, until it is off. What was paused on its own stays paused after that.

With on, the command returns when this agent leads no election any more, after --wait
at most. The agent is asked over the http of FILE. If no agent uses the state directory
of FILE, the command leaves a note there for the next one.

Exit codes:
  0   maintenance is on, or off, as asked
  69  the agent runs and does not answer or has no http, or still leads after --wait
  77  the token of FILE is not that of the agent`

func onOrOff(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] != "on" && args[0] != "off" {
		return exit.Usagef("agent maintenance: the argument is %q; want on or off", strings.Join(args, " "))
	}
	return nil
}

func newAgentMaintenance(openers elect.Openers, from func(*cobra.Command) *cobra.Command, path *string) *cobra.Command {
	wait := time.Minute
	cmd := from(&cobra.Command{
		Use: "maintenance --config FILE on|off", Short: "have all elections of an agent stand aside", Args: onOrOff,
		Long: maintenanceHelp, Example: "  elect agent maintenance --config /etc/elect/agent.yaml on",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.FromEnvironment(cmd); err != nil {
				return err
			}
			file, _, err := loadAgent(openers, *path, nil, runner.AgentConfig{})
			if err != nil {
				return usageLines(cmd, err)
			}
			dir, err := agentState(file)
			if err != nil {
				return err
			}
			defer dir.Close()
			on, then := args[0] == "on", "maintenance is "+args[0]
			if dir.Lock() == nil { // until dir is closed no agent starts
				if err := runner.Maintain(dir, on); err != nil {
					return exit.With(exit.CannotCreate, err)
				}
				then += "; no agent runs"
			} else if err := maintain(cmd, file, on, wait); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), then)
			return err
		},
	})
	cmd.Flags().Var(cli.Duration(&wait), "wait", "`TIME` to wait, with on, until this agent leads no election")
	return cmd
}

// maintain asks the agent that runs with a configuration.
func maintain(cmd *cobra.Command, f *config.File, on bool, wait time.Duration) error {
	c, err := agentClient(f)
	if err != nil {
		return err
	}
	ctx, cancel := within(cmd, orderTimeout)
	defer cancel()
	if err := c.Maintenance(ctx, on); err != nil {
		code := exit.Unavailable
		if r, ok := errors.AsType[*electhttp.Refusal](err); ok && (r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden) {
			code = exit.NotPermitted
		}
		return exit.With(code, fmt.Errorf("the agent at %s: %w", f.HTTP.Listen, err))
	}
	if !on {
		return nil
	}
	over, stop := within(cmd, wait)
	defer stop()
	for {
		all, err := c.Elections(over)
		if over.Err() == nil && err != nil {
			return exit.With(exit.Unavailable, fmt.Errorf("maintenance is on; whether this agent still leads is not known: %w", err))
		}
		i := slices.IndexFunc(all, func(s electhttp.Status) bool {
			return slices.Contains([]string{"starting", "leader", "ending"}, s.State)
		})
		if err == nil && i < 0 {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-over.Done():
			return exit.With(exit.Unavailable, fmt.Errorf("maintenance is on, and after %v this agent still leads; want a longer --wait, or a look at its log", wait))
		}
	}
}

// agentClient is a client of the HTTP of an agent.
func agentClient(f *config.File) (*electhttp.Client, error) {
	h := f.HTTP
	if h.Listen == "" {
		return nil, exit.With(exit.Unavailable, errors.New("an agent uses the state directory, and its configuration has no http; want http.listen, such as unix:/run/elect/agent.sock, or the agent stopped"))
	}
	c := &electhttp.Client{URL: "http://" + h.Listen}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	c.HTTP = &http.Client{Transport: t}
	if path, local := strings.CutPrefix(h.Listen, "unix:"); local {
		c.URL = "http://localhost"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	if _, port, _ := net.SplitHostPort(h.Listen); port == "0" {
		return nil, exit.Usagef("http.listen %s has no fixed port at which the agent could be asked; want one, or unix:PATH", h.Listen)
	}
	var err error
	if c.Token, err = readToken("http.token-file", h.TokenFile); err != nil || h.Cert == "" {
		return c, err
	}
	pair, err := keyPair("http.cert", h.Cert, "http.key", h.Key)
	if err != nil {
		return nil, err
	}
	c.URL = "https://" + h.Listen
	t.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // its name need not be in it: it is this certificate, or no other
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !bytes.Equal(raw[0], pair.Certificate[0]) {
				return errors.New("its certificate is not that of http.cert")
			}
			return nil
		},
	}
	return c, nil
}
