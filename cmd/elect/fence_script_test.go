//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/electd/elect/internal/cli/clitest"
)

// upstream is an HTTP server that knows nothing of fencing: it keeps what is posted to
// each path. It says its URL.
func upstream() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	kept := map[string]string{}
	fmt.Printf("http://%v\n", l.Addr())
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost && err == nil {
			kept[r.URL.Path] = string(body)
		}
		fmt.Fprintln(w, kept[r.URL.Path])
	}))
}

// readEnv sets a variable to the text of a file.
func readEnv(ts *testscript.TestScript, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// addresses sets PROXY and METRICS to where a proxy says that it serves.
func addresses(ts *testscript.TestScript, args []string) {
	text := ts.ReadFile(args[0])
	find := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			ts.Fatalf("%s does not say where it serves:\n%s", args[0], text)
		}
		return "http://" + m[1]
	}
	ts.Setenv("PROXY", find(`guarding \S+ on (\S+) for`))
	ts.Setenv("METRICS", find(`metrics at http://(\S+)/metrics`))
}

// ask sends a request, with the secret of a file if one is named. It writes the status, the headers of fencing and the
// body to the standard output.
func ask(ts *testscript.TestScript, args []string) {
	fmt.Fprint(ts.Stdout(), answer(ts, args))
}

// askUntil asks until the answer matches a pattern.
func askUntil(ts *testscript.TestScript, args []string) {
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	got := ""
	if !clitest.Eventually(func() bool { got = answer(ts, args[1:]); return pattern.MatchString(got) }) {
		ts.Fatalf("%s does not answer %q within %v, but:\n%s", args[2], args[0], clitest.Patience, got)
	}
}

// answer is what ask writes.
func answer(ts *testscript.TestScript, args []string) string {
	args = append(slices.Clone(args), []string{"", "", "-", "", ""}[len(args):]...)
	client := http.Client{Timeout: clitest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	if socket, path, ok := strings.Cut(args[1], "!"); ok { // SOCKET!/PATH
		args[1] = "http://localhost" + path
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", ts.MkAbs(socket))
		}
	}
	r, err := http.NewRequest(args[0], args[1], strings.NewReader(args[3]))
	ts.Check(err)
	if args[2] != "-" {
		r.Header.Set("Fencing-Token", args[2])
	}
	if args[4] != "" {
		r.Header.Set("Fencing-Claim", strings.TrimSpace(ts.ReadFile(args[4])))
	}
	resp, err := client.Do(r)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	out := &strings.Builder{}
	fmt.Fprintln(out, resp.Status)
	for name, values := range resp.Header {
		if strings.HasPrefix(name, "Fencing-") {
			fmt.Fprintf(out, "%s: %s\n", name, strings.Join(values, " | "))
		}
	}
	fmt.Fprintf(out, "%s\n", body)
	return out.String()
}
