package demo

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/cmd/elect/internal/stamp"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/fence/fencehttp"
	"github.com/electd/elect/peer"
)

// account is the guarded resource.
const account fence.Resource = "account"

// secretFile has the secret for claims at the server that checks.
func secretFile(dir string) string { return filepath.Join(dir, "claim.secret") }

func accountFile(dir string) string { return filepath.Join(dir, "account") }

// Client is the process of a client of the story: it carries out the orders from stdin, and answers on stdout. It
// ends with stdin. The file secret has its secret for claims. writer is the command line of its writer; nil is none.
func Client(ctx context.Context, at, id, bare, guarded, secret string, writer []string, in io.Reader, out io.Writer) error {
	w := &writers{command: writer}
	defer w.close()
	e, err := elect.Openers{"peer": peer.Open}.Open(ctx, at, election, elect.Config{ID: id, Guardian: w})
	if err != nil {
		return err
	}
	defer e.Close()
	shown, err := fencehttp.ReadSecret(secret)
	if err != nil {
		return err
	}
	c := &zombie{election: e, writers: w, bare: bare, guarded: guarded, secret: shown, http: &http.Client{Transport: &fencehttp.Transport{Resource: account}, Timeout: zombieLimit}}
	for commands, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out); ; {
		var what command
		if err := commands.Decode(&what); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := c.do(ctx, what)
		a.At = stamp.Now()
		if errors.Is(err, elect.ErrLost) {
			a.Lost = err.Error()
		} else if err != nil {
			a.Failed = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// zombie is a client that completes its write, whatever has happened since its check.
type zombie struct {
	election      *elect.Election
	term          *elect.Term
	writers       *writers
	bare, guarded string // URLs
	secret        fencehttp.Secret
	http          *http.Client
	amount        int // the amount that it is about to write
}

func (c *zombie) do(ctx context.Context, what command) (a answer, err error) {
	if c.term == nil && what.Do != "stand" {
		return a, fmt.Errorf("%s: it was never elected", what.Do)
	}
	switch what.Do {
	case "stand":
		if c.term, err = c.election.Campaign(ctx); err == nil {
			a.Token = c.term.Token()
		}
		return a, err
	case "resign":
		c.term.Resign()
		return a, c.term.Release(ctx)
	}
	ctx = fence.NewContext(ctx, c.term.Token())
	switch what.Do {
	case "work":
		err = c.prepare(ctx, what.Pays, &a)
	case "write":
		err = c.write(ctx, &a)
	default:
		err = fmt.Errorf("%q is nothing that a client does", what.Do)
	}
	return a, err
}

// prepare claims, reads the account, starts its writer, and checks that it may write.
func (c *zombie) prepare(ctx context.Context, pays int, a *answer) error {
	guarded, err := fencehttp.NewClient(c.guarded, account, fencehttp.ClientConfig{HTTP: c.http, Secret: c.secret})
	if err != nil {
		return err
	}
	if err := guarded.Claim(ctx, c.term.Token()); err != nil {
		return err
	}
	there, err := readAccount(ctx, c.http, c.guarded)
	if err != nil {
		return err
	}
	beside, err := readAccount(ctx, c.http, c.bare)
	if err == nil && beside != there {
		err = fmt.Errorf("the servers disagree: %d and %d", beside, there)
	}
	if err != nil {
		return err
	}
	if c.writers.command != nil {
		if err := c.writers.start(ctx); err != nil {
			return cmp.Or(c.term.Check(), err)
		}
	}
	a.Balance, a.ReadAt = there, stamp.Now()
	c.amount = there + pays
	if err := c.term.Check(); err != nil {
		a.Lost = err.Error()
	}
	a.Left, _ = c.term.Remaining()
	return nil
}

// write writes to both servers, and reports what it knows afterwards.
func (c *zombie) write(ctx context.Context, a *answer) error {
	if err := c.put(ctx, c.bare); err != nil {
		return err
	}
	err := c.put(ctx, c.guarded)
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		a.Refused, a.Highest = stale.Error(), stale.Highest
		err = nil
	}
	if lost := c.term.Check(); lost != nil {
		a.Lost = lost.Error()
	}
	return err
}

func (c *zombie) put(ctx context.Context, store string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, store, strings.NewReader(strconv.Itoa(c.amount)))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s: %s", store, resp.Status)
	}
	return nil
}

func readAccount(ctx context.Context, client *http.Client, store string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, store, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// Store is the process of a server of the story: it keeps the account in a file of dir, and writes its URL to out.
// One that checks keeps its mark beside the account, on disk, and refuses writes with a smaller token. It serves
// until it is killed.
func Store(dir string, checks bool, out io.Writer) error {
	var handler http.Handler = store(dir)
	if checks {
		mark, err := fencefile.NewMark(filepath.Join(dir, "marks"), fencefile.Config{})
		if err != nil {
			return err
		}
		if err := mark.Install(context.Background(), account); err != nil {
			return err
		}
		guard, err := fence.NewGuard(mark, []fence.Resource{account}, fence.GuardConfig{})
		if err != nil {
			return err
		}
		secret, err := fencehttp.ReadSecret(secretFile(dir))
		if err != nil {
			return err
		}
		handler = fencehttp.NewHandler(guard, handler, fencehttp.Config{
			MayClaim: secret.IsShown, Open: func(r *http.Request) bool { return r.Method == http.MethodGet },
		})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%v\n", l.Addr()); err != nil {
		return err
	}
	server := http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	return server.Serve(l)
}

// store serves the account, which is a file in a directory.
type store string

func (s store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := accountFile(string(s))
	if r.Method == http.MethodGet {
		http.ServeFile(w, r, path)
		return
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, 100))
	if err == nil && r.Context().Err() == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
