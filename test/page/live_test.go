package page

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/electd/elect/internal/harness"
)

// printed matches the address that elect demo --web prints.
var printed = regexp.MustCompile(`(http://[^/]+/)#token=\w+`)

// demo starts elect demo --web, and returns its server and the address of the page.
func demo(t *testing.T) (cmd *exec.Cmd, server, address string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), harness.Build(t, "../../cmd/elect"), "demo", "--web")
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	_, out := harness.Start(t, cmd)
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("elect demo --web prints no address: %v", err)
		}
		if found := printed.FindStringSubmatch(line); found != nil {
			go io.Copy(io.Discard, in)
			return cmd, found[1], found[0]
		}
	}
}

// TestLive uses the page on a cluster that runs: real processes are killed, frozen and cut off by its buttons.
func TestLive(t *testing.T) {
	chromium(t)
	cmd, server, address := demo(t)
	b := open(t, strings.TrimSuffix(server, "/"))
	b.must(chromedp.Navigate(address))

	// leads waits until another one than the nodes before leads, in all panels, and returns it.
	leads := func(before ...string) string {
		t.Helper()
		script := fmt.Sprintf(`(() => {
			const all = [...document.querySelectorAll("#cluster tbody tr")].map(r => [...r.cells].map(c => c.textContent));
			const l = all.find(r => r[1] === "leader" && r[3] === r[0] && r[4] !== "");
			return l && !%q.split(" ").includes(l[0]) && [...document.querySelectorAll(".node.elected .id")].some(e => e.textContent === l[0]) ? l[0] : "";
		})()`, strings.Join(before, " "))
		b.until(script + ` !== ""`)
		return eval[string](b, script)
	}
	choose := func(id string) {
		t.Helper()
		b.must(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
			`(s => { s.value = %q; s.dispatchEvent(new Event("change", {bubbles: true})); })(document.querySelector("#operate select"))`, id)))
		b.says("#node h2", "Node "+id)
	}
	row := func(id, has string) {
		t.Helper()
		b.until(fmt.Sprintf(`[...document.querySelectorAll("#cluster tbody tr")].some(r => r.cells[0].textContent === %q && r.textContent.includes(%q))`, id, has))
	}

	first := leads()
	b.says("#log", "was elected with token")
	if got := eval[string](b, "location.hash"); got != "" {
		t.Errorf("the address has %q after the #; want the token to be taken out of it", got)
	}

	// The leader is killed: another one leads, and is announced.
	b.press("#operate", "Kill")
	second := leads(first)
	b.says("#said", first+" was killed.")
	b.says("#said", second+" took over after")
	row(first, "dead")
	b.until("document.querySelectorAll('#lanes tbody tr').length >= 2")
	choose(first)
	b.press("#operate", "Start again")
	row(first, "follower")

	// The next leader is frozen: its lease runs out, and only then another one leads.
	choose(second)
	b.press("#operate", "Pause")
	row(second, "frozen")
	third := leads(second)
	b.press("#operate", "Resume")
	row(second, "follower")

	// The one after that is cut off, by the keyboard.
	choose(third)
	b.must(chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"), chromedp.KeyEvent("c"))
	row(third, "cut off")
	leads(third)
	b.must(chromedp.KeyEvent("c"))
	row(third, "follower")
	b.says("#log", third+" is connected again")

	// What an earlier leader wrote arrives late, and is refused; two never worked at once.
	b.press("#operate", "Late write")
	b.says("#proof", "1late writes refused")
	b.says("#proof", "0 times")
	b.says("#lanes p", "Two at once: never.")
	if got := eval[int](b, "document.querySelectorAll('#lanes tbody tr').length"); got < 4 {
		t.Errorf("the lanes show %d terms; want 4 at least", got)
	}

	// What has no effect is answered.
	choose(third)
	b.press("#operate", "Start again")
	b.says("#operate .hint", third+" is running already.")

	// It is wound back to the first leader, and forth to the present.
	b.must(chromedp.Evaluate[chromedp.Void](`(r => { r.value = 3e9; r.dispatchEvent(new Event("input", {bubbles: true})); })(document.querySelector(".timeline input"))`))
	b.says("#transport .now", "ago")
	b.must(chromedp.KeyEvent("e")) // no key of this page
	b.press("#transport", "Present")
	b.says("#transport .now", "the present")

	for _, scheme := range []string{"light", "dark"} {
		violations(b, scheme, "live")
	}
	b.must(chromedp.KeyEvent("?"))
	b.says("#help[open]", "let a late write arrive")
	violations(b, "light", "with the help")
	b.must(chromedp.KeyEvent("?"))
	pictures(b)

	// Another page sees the same.
	other := open(t, strings.TrimSuffix(server, "/"))
	other.must(chromedp.Navigate(address))
	other.says("#log", first+" was killed.")
	other.says("#status", "three processes")
	for _, each := range []*tab{b, other} {
		if said := each.said(); len(said) > 0 {
			t.Errorf("the console says %q; want nothing", said)
		}
	}

	// The cluster ends under its pages.
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for _, each := range []*tab{b, other} {
		each.says("#status", "The cluster has ended")
		each.says("#operate .hint", "The cluster has ended")
		if said := each.said(); len(said) > 0 {
			t.Errorf("the console says %q at the end; want nothing", said)
		}
	}
	violations(b, "dark", "at the end")
}

// TestLiveBroken opens pages that can show no cluster, and says why.
func TestLiveBroken(t *testing.T) {
	chromium(t)
	cmd, server, address := demo(t)
	b := open(t, strings.TrimSuffix(server, "/"))
	b.must(chromedp.Navigate(server))
	b.says("#status", "This address has no token")
	b.must(chromedp.Navigate(server+"?#token=WRONG"))
	b.says("#status", "its token is missing, or of another one")
	violations(b, "light", "without a cluster")
	pictures(b)
	b.must(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	b.says("#cluster table", "leader")

	// It is killed, and cannot say that it ends.
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.says("#status", "elect demo does not answer any more")
	b.says("#operate .hint", "The cluster has ended")
	b.says("#cluster table", "leader")
}
