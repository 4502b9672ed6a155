package page

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// TestApp uses the panels as a visitor does.
func TestApp(t *testing.T) {
	chromium(t)
	s := serve(t, http.Dir(write(t)))
	for name, use := range map[string]func(t *testing.T, s *site){
		"kill": kill, "plays": plays, "still": still, "links": links, "chooser": chooser, "compare": compare, "cause": cause, "breaks links": breaksLinks, "many lines": manyLines, "trace": opensTrace,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "kill" {
				long.Full(t, "a browser for each part of the page")
			}
			use(t, s)
		})
	}
	if failed := s.failed(); len(failed) > 0 {
		t.Errorf("the page asked for what is not in its folder: %q", failed)
	}
}

// app opens the page at a link, and waits until its run is over.
func app(t *testing.T, s *site, link string) *tab {
	t.Helper()
	b := open(t, s.URL)
	b.must(chromedp.Navigate(s.URL + under + link))
	b.until("document.querySelector('.now')?.textContent.includes('event') && !document.querySelector('.now').textContent.includes('…')")
	return b
}

// press presses the button with that name, below a selector.
func (b *tab) press(within, name string) {
	b.t.Helper()
	if !eval[bool](b, fmt.Sprintf(
		"(b => (b?.click(), !!b))([...document.querySelectorAll(%q + ' button')].find(b => (b.ariaLabel ?? b.textContent).trim().startsWith(%q)))", within, name)) {
		b.t.Fatalf("there is no button %q in %s", name, within)
	}
}

// says waits until an element has a text in it.
func (b *tab) says(selector, want string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, want))
}

// kill does what a visitor does first: sees a leader, kills it, and sees the next one; and takes it back.
func kill(t *testing.T, s *site) {
	b := app(t, s, "")
	b.must(chromedp.KeyEvent("e"))
	b.says("#said", "is elected, with token 1")
	b.says("#operate select", "the leader (n1)")
	b.says("#node h2", "Node n1")

	// One event back, n1 is a candidate; and on again.
	b.must(chromedp.KeyEvent(kb.ArrowLeft))
	b.says("#node .facts", "candidate")
	b.must(chromedp.KeyEvent(kb.ArrowRight))
	b.says("#node .facts", "leader")

	hash := eval[string](b, "elect.call('grow').then(o => o.hash)")
	b.press("#operate", "Kill")
	b.says("#operate .hands", "kill n1 for 5 s")
	b.until("document.querySelectorAll('#lanes tbody tr').length === 2")
	b.must(chromedp.KeyEvent("e"))
	b.says("#said", "is elected, with token 2")
	b.says(".node.elected .badge", "B")
	b.says("#cluster table", "dead")
	b.press("#operate", "Undo")
	b.until("!document.querySelector('#operate .hands')")
	b.until(fmt.Sprintf("elect.call('grow').then(o => o.hash === %q)", hash))
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// plays plays until there is a leader, and pauses.
func plays(t *testing.T, s *site) {
	b := app(t, s, "")
	b.must(chromedp.KeyEvent(" "))
	b.says("#transport .play", "Pause")
	b.says("#said", "leads: its lease is proven")
	b.must(chromedp.KeyEvent(" "))
	b.says("#transport .play", "Play")
	// What is shown is the event before that moment, and a step leads to the next one.
	event := func() int {
		return eval[int](b, "Number(document.querySelector('.now').textContent.match(/event ([0-9,]+)/)[1].replace(',', ''))")
	}
	at := event()
	b.must(chromedp.KeyEvent(kb.ArrowRight))
	b.until(fmt.Sprintf("document.querySelector('.now').textContent.includes('event %d ')", at+1))
}

// still plays where the system asks for less motion: the page jumps from turn to turn.
func still(t *testing.T, s *site) {
	b := app(t, s, "")
	b.must(calm)
	b.until("matchMedia('(prefers-reduced-motion: reduce)').matches")
	turns := eval[[]string](b, "elect.call('grow').then(o => o.turns.map(t => (t.at / 1e9).toFixed(6) + ' s'))")
	eval[chromedp.Void](b, `(() => {
		const seen = globalThis.seen = new Set();
		new MutationObserver(() => seen.add(document.querySelector(".now strong").textContent))
			.observe(document.querySelector(".now"), {subtree: true, childList: true, characterData: true});
	})()`)
	b.must(chromedp.KeyEvent(" "))
	b.says("#transport .play", "Pause")
	b.says("#transport .play", "Play")
	seen := eval[[]string](b, "[...seen]")
	if len(seen) < 3 {
		t.Errorf("it was at %q; want three turns at least", seen)
	}
	for _, at := range seen {
		if !slices.Contains(turns, at) {
			t.Errorf("it was at %s; want only turns: %q", at, turns)
		}
	}
}

// links opens worlds by their links, good and bad.
func links(t *testing.T, s *site) {
	b := app(t, s, "")
	follow := func(world string) {
		b.must(chromedp.Navigate(eval[string](b, "location.href.split('#')[0]") + "#" + link(world)))
	}
	follow(`{"world": {"protocol": "bully", "scenario": "minority-leader"}, "time": 1000000000}`)
	b.says(".world-name", "bully · minority-leader")
	b.says("#invariants", "violated as expected")
	b.must(chromedp.KeyEvent("v"))
	b.says("#said", "violated:")
	b.says("#lanes", "Two at once: ")
	follow(`{"world": {"protocol": "raft", "nodes": 99}}`)
	b.says(".problem", "nodes 99; want 1 to")
	follow(`{"world": {"protocol": "raft", "scenario": "crash"}, "event": 1e300}`)
	b.says(".problem", "a moment that is no whole number")
	b.must(chromedp.Navigate(eval[string](b, "location.href.split('#')[0]") + "#%25"))
	b.says(".problem", "The link cannot be read")
	b.says(".world-name", "bully · minority-leader")
	follow(`{"world": {"protocol": "raft", "scenario": "crash"}, "event": 999999}`)
	b.says(".world-name", "raft · crash")
	b.until("(n => n[1] === n[2])(document.querySelector('.now').textContent.match(/event ([0-9,]+) of ([0-9,]+)/))")
}

// chooser finds a scenario, has it judged, and opens it; and gives it files.
func chooser(t *testing.T, s *site) {
	b := app(t, s, "")
	b.must(chromedp.KeyEvent("w"))
	b.until("document.querySelector('#chooser').open")
	violations(b, "light", "with the chooser")
	violations(b, "dark", "with the chooser")
	b.press("#chooser .scenarios li:first-child", "Judge it")
	b.says("#chooser .scenarios li:first-child", "As expected")
	drop := func(text string) {
		eval[chromedp.Void](b, fmt.Sprintf(`(() => {
			const data = new DataTransfer();
			data.items.add(new File([%q], "a.json"));
			document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
		})()`, text))
	}
	drop("{")
	b.says("#chooser [role=alert]", "a.json is no JSON")
	drop("{}")
	b.says("#chooser [role=alert]", "a.json is no schedule")
	drop(`{"format": 1, "protocol": "raft", "nodes": 3, "seed": 9007199254740993, "config": "12345678901234567890"}`)
	b.says("#chooser [role=alert]", "a.json has the number 9007199254740993; want")
	drop(`{"format": 1, "protocol": "raft", "nodes": 99}`)
	b.says("#chooser [role=alert]", "nodes: 99; want 1 to")
	drop(eval[string](b, "elect.call('schedule').then(s => s.schedule)"))
	b.until("!document.querySelector('#chooser').open")
	b.says(".world-name", "a schedule")
}

// opensTrace opens a flight record by the file input, a defective one, and one that is dropped; and leaves it.
func opensTrace(t *testing.T, s *site) {
	b := app(t, s, "#"+link(`{"world": {"protocol": "raft", "scenario": "crash", "hands": [{"kind": "kill", "node": "n1", "at": 1000000000}]}, "event": 100}`))
	b.says(".world-name", "raft · crash")
	b.says(".now", "event 100 ")
	text, err := os.ReadFile("../../lab/play/testdata/flight-peer.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	with := func(text, name, act string) {
		eval[chromedp.Void](b, fmt.Sprintf(`(() => {
			const data = new DataTransfer();
			data.items.add(new File([%q], %q));
			%s
		})()`, text, name, act))
	}
	const drop = `for (const what of ["dragover", "drop"]) {
		document.body.dispatchEvent(new DragEvent(what, {dataTransfer: data, bubbles: true, cancelable: true}));
		globalThis.hinted = what === "dragover" ? document.querySelector("#drop").matches(":popover-open") : globalThis.hinted && !document.querySelector("#drop").matches(":popover-open");
	}`
	header, rest, _ := strings.Cut(string(text), "\n")
	with("<!doctype html>", "report.html", drop)
	b.says(".problem", "report.html is a page, such as the report of a run of make chaos, which any browser shows; want a flight record")
	with("{\"at\":1,\"kind\":\"run\",\"node\":-1}\n{}\n", "history.ndjson", drop)
	b.says(".problem", "this is the history of a run of make chaos")
	with(header+"\n{}\n", "defect.ndjson", drop)
	b.says(".problem", "line 2: field n: it is missing or 0")
	b.says(".world-name", "raft · crash")
	if !eval[bool](b, "hinted") {
		t.Error("nothing said that a file can be dropped, or it stayed")
	}

	b.press("header", "Worlds")
	b.until("document.querySelector('#chooser').open")
	with(string(text), "flight.ndjson", `const input = document.querySelector("#chooser input[type=file]");
		input.files = data.files;
		input.dispatchEvent(new Event("change", {bubbles: true}));`)
	b.until("!document.querySelector('#chooser').open")
	b.says("#trace h2", "flight.ndjson")
	b.says("#trace", "No trace has the writes to the guarded resource.")
	b.says("#trace", "Whether another node led at the same time is not in the record of one node.")
	b.says("#links", "No trace has the state of the links")
	b.says("#invariants", "Nobody has judged this trace.")
	b.until("[...document.querySelectorAll('#lanes tbody tr')].some(r => r.cells[1].textContent === 'n1' && r.cells[5].textContent === 'not known')")
	b.must(chromedp.KeyEvent(kb.ArrowLeft))
	b.says(".now", "event 0 ")
	b.says("#cluster svg", "unknown")
	b.must(chromedp.KeyEvent("e"))
	b.says("#said", "n1 is elected, with token")
	b.says("#node .facts", "leader")
	b.says("#log .now-row", "n1 is elected")
	for _, gone := range []string{"#operate", ".seed", "header .share", "#links button", ".problem p"} {
		if eval[bool](b, fmt.Sprintf("!!document.querySelector(%q)", gone)) {
			t.Errorf("a trace is shown with %s; want it without", gone)
		}
	}
	violations(b, "light", "with a trace")
	violations(b, "dark", "with a trace")

	// One of the simulator has its faults, and its schedule is a world.
	file := filepath.Join(t.TempDir(), "run.ndjson")
	run := electlab(t, harness.Build(t, "../../lab/cmd/electlab"), t.TempDir(), "sim", "run", "--seed", "17", "--faults", "5s", "--trace", file)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sim, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	with(string(sim), "run.ndjson", drop)
	b.says("#trace h2", "run.ndjson")
	b.says("#invariants", "no two participants are elected with one token")
	b.must(chromedp.KeyEvent("e"))
	b.says("#said", "is elected, with token")
	b.press("#trace", "Open its schedule as a world")
	b.says(".world-name", "quorum · a schedule · seed 17")
	eval[chromedp.Void](b, "history.back()")
	b.says(".world-name", "raft · crash")

	// Another one, which is defective further down, is shown up to there.
	line, _, _ := strings.Cut(rest, "\n")
	with(header+"\n"+line+"\n{}\n", "cut.ndjson", drop)
	b.says("#trace [role=alert]", "line 3: field n: it is missing or 0")
	b.press("#trace", "Leave the trace")
	b.says(".world-name", "raft · crash")
	b.says(".now", "event 100 ")
	b.says("#operate .hands", "kill n1")
	b.until("!document.querySelector('#trace') && document.querySelector('header .share')")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// compare compares two protocols, opens the world of one of them, and gives up a long comparison.
func compare(t *testing.T, s *site) {
	b := app(t, s, "#"+link(`{"world": {"protocol": "quorum", "scenario": "crash"}, "time": 0}`))
	b.press("header", "Compare")
	b.must(chromedp.Click("#compare input[value=world]"))
	for _, name := range []string{"lease", "queue", "raft-checkquorum", "raft", "blazingmq", "ring"} {
		eval[chromedp.Void](b, fmt.Sprintf("[...document.querySelectorAll('#compare label')].find(l => l.textContent.trim() === %q).control.click()", name))
	}
	eval[chromedp.Void](b, "[...document.querySelectorAll('#compare label')].find(l => l.textContent.trim() === 'bully').control.click()")
	b.press("#compare", "Compare 2 protocols")
	b.until("document.querySelectorAll('#compare tbody tr').length === 2")
	b.until("document.querySelectorAll('#compare .ring').length === 2")

	// One scrubber moves both: each ring is at the same moment, as its world is alone.
	ring := func(i int) string {
		return eval[string](b, fmt.Sprintf("document.querySelectorAll('#compare .ring')[%d].ariaLabel", i))
	}
	begin := []string{ring(0), ring(1)}
	if strings.Contains(begin[0], "leader") || strings.Contains(begin[1], "leader") {
		t.Errorf("at the beginning there is a leader: %q", begin)
	}
	eval[chromedp.Void](b, "(s => { s.value = 9e9; s.dispatchEvent(new Event('input')); })(document.querySelector('#compare .scrub'))")
	b.until("[...document.querySelectorAll('#compare .ring')].every(r => r.ariaLabel.includes('leader'))")
	if got := ring(1); !strings.HasPrefix(got, "n1") || !strings.Contains(got, "n5 A leader") {
		t.Errorf("the ring of bully says %q; want n5 as the leader", got)
	}
	b.must(chromedp.Focus("#compare .scrub"), chromedp.KeyEvent(kb.Home))
	b.until(fmt.Sprintf("[...document.querySelectorAll('#compare .ring')].map(r => r.ariaLabel).join() === %q", strings.Join(begin, ",")))
	b.press("#compare", "▶ Play all")
	b.until("[...document.querySelectorAll('#compare .ring')].every(r => r.ariaLabel.includes('leader'))")
	b.press("#compare", "❚❚ Pause")
	violations(b, "light", "with a comparison")
	b.press("#compare", "Open this on bully")
	b.says(".world-name", "bully · a schedule")
	b.until("!document.querySelector('.now').textContent.includes('event 0 ')")

	b.must(chromedp.Click("#compare input[value=drawn]"))
	eval[chromedp.Void](b, "(i => { i.value = 1000; i.dispatchEvent(new Event('change')); })([...document.querySelectorAll('#compare label')].find(l => l.textContent === 'Seeds').control)")
	b.press("#compare", "Compare 2 protocols")
	b.says("#compare [role=status]", "is measured")
	b.press("#compare", "Cancel")
	b.until("!document.querySelector('#compare progress')")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// cause selects a line of the log, and sees what led to it.
func cause(t *testing.T, s *site) {
	b := app(t, s, "")
	b.must(chromedp.KeyEvent("e"))
	b.says("#said", "is elected")
	b.must(chromedp.Click("#log input[type=checkbox]"))
	b.says("#log", "vote-reply(term 1, granted)")
	eval[chromedp.Void](b, "[...document.querySelectorAll('#log .row')].find(r => r.textContent.includes('elected with token 1')).click()")
	b.says("#log .chosen", "elected with token 1")
	b.says("#log .told", "elected with token 1")

	// Each line that led to it, and that it led to, has its mark, and no other line; those in sight are looked at.
	cone := eval[struct{ Past, Future []int }](b, `(async () => {
		const {lines: [l]} = await elect.call("log", {index: Number(document.querySelector("#log .chosen").id.split("-")[1]), count: 1});
		globalThis.cone = await elect.call("cause", {line: l.number, most: 500});
		return cone;
	})()`)
	if len(cone.Past) == 0 || len(cone.Future) <= 2 {
		t.Fatalf("the lines %d led to it, and it led to %d lines; want one at least, and more than two", cone.Past, len(cone.Future))
	}
	for _, number := range slices.Concat(cone.Past, cone.Future[:3], cone.Future[len(cone.Future)-1:]) {
		eval[chromedp.Void](b, fmt.Sprintf("(l => { l.scrollTop = %d / (document.querySelector('#log .row').ariaSetSize - 1) * (l.scrollHeight - l.clientHeight); })(document.querySelector('.log'))", number-1))
		b.until(fmt.Sprintf("document.querySelector('#log-%d:is(.past, .future)')", number-1))
		wrong := eval[[]string](b, `[...document.querySelectorAll("#log .row:has(time)")].filter(r => {
			const number = Number(r.ariaPosInSet);
			return r.classList.contains("past") !== cone.past.includes(number) || r.classList.contains("future") !== cone.future.includes(number);
		}).map(r => r.ariaPosInSet + " " + r.className)`)
		if len(wrong) > 0 {
			t.Errorf("the marks of these lines are wrong: %q; want those of %+v", wrong, cone)
		}
	}
	violations(b, "light", "with a selected line")
}

// manyLines scrolls through a log of more than 100,000 lines, by the scrollbar and by the keyboard.
func manyLines(t *testing.T, s *site) {
	b := app(t, s, "#"+link(`{"world": {"protocol": "raft", "nodes": 9, "seconds": 150}, "time": 0}`))
	b.must(chromedp.Click("#log input[type=checkbox]"))
	b.until("document.querySelectorAll('#log .row time').length > 5")
	lines := eval[int](b, "elect.call('log', {from: 1, count: 1}).then(l => l.fit)")
	if lines < 100_000 {
		t.Fatalf("the log has %d lines; want 100,000 at least", lines)
	}
	row := func(place int) {
		t.Helper()
		b.until(fmt.Sprintf("document.querySelector('#log-%d time')", place))
		want := eval[string](b, fmt.Sprintf("elect.call('log', {index: %d, count: 1}).then(l => l.lines[0].says)", place))
		if got := eval[string](b, fmt.Sprintf("document.querySelector('#log-%d .says').textContent", place)); got != want {
			t.Errorf("line %d says %q; want %q", place, got, want)
		}
		if all := eval[int](b, "document.querySelectorAll('#log .row').length"); all > 60 {
			t.Errorf("%d lines are drawn; want those in sight", all)
		}
		if got := eval[string](b, fmt.Sprintf("(r => r.ariaPosInSet + ' of ' + r.ariaSetSize)(document.querySelector('#log-%d'))", place)); got != fmt.Sprintf("%d of %d", place+1, lines) {
			t.Errorf("line %d is %s; want %d", place, got, lines)
		}
	}
	for _, part := range []float64{1, 0.5, 0} {
		eval[chromedp.Void](b, fmt.Sprintf("(l => { l.scrollTop = %g * (l.scrollHeight - l.clientHeight); })(document.querySelector('.log'))", part))
		row(int(part * float64(lines-1)))
	}
	active := func(place int) {
		t.Helper()
		b.until(fmt.Sprintf("document.querySelector('.log').getAttribute('aria-activedescendant') === 'log-%d'", place))
		row(place)
		if !eval[bool](b, fmt.Sprintf("((l, r) => r.top >= l.top - 1 && r.bottom <= l.bottom + 1)(document.querySelector('.log').getBoundingClientRect(), document.querySelector('#log-%d').getBoundingClientRect())", place)) {
			t.Errorf("line %d has the focus, and is out of sight", place)
		}
	}
	b.must(chromedp.Focus(".log"), chromedp.KeyEvent(kb.End))
	active(lines - 1)
	b.must(chromedp.KeyEvent(kb.ArrowUp))
	active(lines - 2)
	b.must(chromedp.KeyEvent(kb.Enter))
	b.until(fmt.Sprintf("document.querySelector('#log-%d').ariaSelected === 'true'", lines-2))
	b.until("document.querySelector('#log .now-row')") // the moment has followed, and the log with it
	b.must(chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowDown))
	active(1)
	violations(b, "light", "with a long log")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// breaksLinks cuts a link by the matrix, and heals it.
func breaksLinks(t *testing.T, s *site) {
	b := app(t, s, "")
	b.must(chromedp.KeyEvent("e"))
	b.says("#said", "is elected")
	b.press("#links", "n1 to n2: whole")
	b.says("#operate .hands", "half-open n1 → n2 for 10 s")
	b.must(chromedp.KeyEvent(kb.ArrowRight))
	b.until("document.querySelector('#links .broken')?.ariaLabel.startsWith('n1 to n2: cut')")
	b.press("#links", "n1 to n2: cut")
	b.until("!document.querySelector('#links .broken')")
}

// link is the part of an address that names a world.
func link(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
