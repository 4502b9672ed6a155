package page

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "embed"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

var rewrite = flag.Bool("rewrite", false, "record docs/lab.webm, and take docs/lab-*.webp")

//go:embed testdata/film.js
var filming string

// docs is where what is recorded is kept.
const docs = "../../docs"

// What a recording is: its frames a second, its least and greatest length, and its greatest size.
const (
	frames           = 15
	shortest         = 57.0
	longest          = 63.0
	largest          = 3 << 20
	wide, high       = 1440, 810 // of the page,
	scale            = 8. / 9    // and of a pixel of the recording
	quality    int64 = 95
)

// TestPictures has the page as docs/lab.md shows it. With -rewrite the pictures are taken.
func TestPictures(t *testing.T) {
	long.Full(t, "pictures for docs/lab.md")
	s := serve(t, http.Dir(write(t)))
	b := open(t, s.URL, before(filming), motion("reduce"))
	b.must(chromedp.Navigate(s.URL + under))
	b.until(ready)
	eval[chromedp.Void](b, "film.start()")
	f := &film{tab: b}
	eval[chromedp.Void](b, "document.querySelectorAll('.pointer').forEach(p => p.remove())")
	take := func(name string, width, height int64, scheme string) {
		b.must(chromedp.EmulateViewport(width, height), mode(scheme))
		f.is("true")
		data := b.picture(page.CaptureScreenshotFormatWebp, 80)
		if len(data) > 150_000 {
			t.Errorf("%s has %d bytes; want 150,000 at most", name, len(data))
		}
		if *rewrite {
			if err := os.WriteFile(filepath.Join(docs, "lab-"+name+".webp"), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(filepath.Join(docs, "lab-"+name+".webp")); err != nil {
			t.Errorf("%v; run: make recording", err)
		}
	}
	take("first", 1280, 720, "light")
	killed := `{"world": {"protocol": "quorum", "nodes": 5, "seconds": 12, "hands": [{"kind": "kill", "node": "leader", "at": 4000000000, "for": 3000000000}]}, "time": 4700000000}`
	f.cut("#" + link(killed))
	f.is("document.querySelector('.now')?.textContent.startsWith('4.7') && !document.querySelector('.now').textContent.includes('…')")
	take("world", 1440, 1000, "light")
	f.cut("#story/lease/6")
	f.is("document.querySelector('#guide .nth')?.textContent === '6 of 6' && document.querySelector('.now').textContent.startsWith('645.')")
	take("story", 1440, 1000, "dark")
	f.cut("#challenge/two-believe")
	f.is("document.querySelector('#guide h2')?.textContent.includes('Make two believe')")
	take("phone", 390, 844, "light")
	b.must(chromedp.EmulateViewport(1440, 1000))
	f.cut("#" + link(`{"world": {"protocol": "quorum", "scenario": "minority-leader"}, "time": 0}`))
	f.is("document.querySelector('.world-name').textContent.includes('minority-leader') && !document.querySelector('.now').textContent.includes('…')")
	f.compared("quorum", "raft", "bully", "lease")
	eval[chromedp.Void](b, "(s => { s.value = 9e9; s.dispatchEvent(new Event('input')); })(document.querySelector('#compare .scrub'))")
	take("compare", 1440, 1000, "light")
}

// film is a page whose time goes on frame by frame.
type film struct {
	*tab
	out  io.Writer // takes the frames; nil is nobody
	at   float64   // in seconds
	last []byte    // the last frame
}

// TestRecording plays what docs/lab.webm shows. With -rewrite it is recorded: frame by frame, so that a busy machine
// makes it no less smooth, and it is the same each time.
func TestRecording(t *testing.T) {
	long.Full(t, "a minute of the page")
	s := serve(t, http.Dir(write(t)))
	b := open(t, s.URL, chromedp.EmulateViewport(wide, high, chromedp.EmulateScale(scale)), mode("light"), before(filming))
	b.must(chromedp.Navigate(s.URL + under))
	b.until(ready)
	eval[chromedp.Void](b, "film.start()")
	f := &film{tab: b}
	if *rewrite {
		done := f.record(t)
		defer done()
	}
	f.scenes()
	if f.at < shortest || f.at > longest {
		t.Errorf("it takes %.1f s; want %.0f to %.0f", f.at, shortest, longest)
	}
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// before has a script run in the page before its own.
func before(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	})
}

// record has ffmpeg take the frames. The function that it returns ends it.
func (f *film) record(t *testing.T) func() {
	file := filepath.Join(docs, "lab.webm")
	cmd := exec.Command("ffmpeg", "-y", "-loglevel", "error", "-f", "image2pipe", "-framerate", fmt.Sprint(frames), "-c:v", "mjpeg", "-i", "-",
		"-an", "-c:v", "libvpx-vp9", "-crf", "36", "-b:v", "0", "-deadline", "good", "-cpu-used", "2", "-g", "250", "-pix_fmt", "yuv420p", file)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; want Debian's package ffmpeg", err)
	}
	f.out = in
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("ffmpeg: %v", err)
		}
		if is, err := os.Stat(file); err != nil || is.Size() > largest {
			t.Errorf("the recording is %v, %v; want %d bytes at most", is, err, largest)
		}
	}
}

// tick is the next frame, or, where nobody takes it, the next tenth of a second.
func (f *film) tick() {
	f.t.Helper()
	step := 1. / frames
	if f.out == nil {
		step = 0.1
	}
	f.at += step
	changed := eval[bool](f.tab, fmt.Sprintf("film.tick(%g)", step*1000))
	if f.out == nil {
		return
	}
	if changed || f.last == nil {
		f.last = f.picture(page.CaptureScreenshotFormatJpeg, quality)
	}
	if _, err := f.out.Write(f.last); err != nil {
		f.t.Fatal(err)
	}
}

// picture is what the page looks like.
func (b *tab) picture(format page.CaptureScreenshotFormat, quality int64) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
	defer cancel()
	data, err := chromedp.Run(ctx, chromedp.Action[[]byte](func(ctx context.Context, target *chromedp.Target) ([]byte, error) {
		r, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: format, Quality: &quality})
		if err != nil {
			return nil, err
		}
		return r.Data, nil
	}))
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// roll lets some seconds go by.
func (f *film) roll(seconds float64) {
	f.t.Helper()
	for end := f.at + seconds; f.at < end-1e-9; {
		f.tick()
	}
}

// when lets seconds go by until a script is true.
func (f *film) when(script string, most float64) {
	f.t.Helper()
	for end := f.at + most; !eval[bool](f.tab, script); {
		if f.at > end {
			f.t.Fatalf("after %.1f s: %s; want it within %.1f s", f.at, script, most)
		}
		f.tick()
	}
}

// caption says something below the page, until the next one.
func (f *film) caption(text string) {
	f.t.Helper()
	eval[chromedp.Void](f.tab, fmt.Sprintf("film.says(%q)", text))
}

// press has the pointer go to the button with that name, and press it.
func (f *film) press(within, name string) {
	f.t.Helper()
	button := fmt.Sprintf("[...document.querySelectorAll(%q + ' :is(button, a)')].find(b => (b.ariaLabel ?? b.textContent).trim().startsWith(%q))", within, name)
	if !eval[bool](f.tab, "!!"+button) {
		f.t.Fatalf("there is no button %q in %s", name, within)
	}
	eval[chromedp.Void](f.tab, "film.point("+button+")")
	f.roll(0.8)
	eval[chromedp.Void](f.tab, "film.click("+button+")")
	f.roll(0.2)
}

// cut goes to another link at once.
func (f *film) cut(link string) {
	f.t.Helper()
	eval[chromedp.Void](f.tab, fmt.Sprintf("location.hash = %q", link))
}

// compared has those protocols compared, off camera, and brings their rings into sight.
func (f *film) compared(protocols ...string) {
	f.t.Helper()
	eval[chromedp.Void](f.tab, "document.querySelector('#compare') ?? [...document.querySelectorAll('header button')].find(b => b.textContent === 'Compare').click()")
	f.is("document.querySelector('#compare')")
	for _, on := range []bool{false, true} { // one that is not chosen can be when others are no more
		eval[chromedp.Void](f.tab, fmt.Sprintf(`(want => {
			for (const {control: c, textContent: name} of document.querySelectorAll("#compare fieldset:nth-of-type(2) label"))
				if (c.checked !== want.includes(name.trim()) && c.checked !== %t) c.click();
		})(%q.split(" "))`, on, strings.Join(protocols, " ")))
		f.is("true")
	}
	eval[chromedp.Void](f.tab, "document.querySelector('#compare input[value=world]').click()")
	f.is("[...document.querySelectorAll('#compare button')].some(b => b.textContent === 'Compare 4 protocols')")
	eval[chromedp.Void](f.tab, "[...document.querySelectorAll('#compare button')].find(b => b.textContent === 'Compare 4 protocols').click()")
	f.is(fmt.Sprintf("document.querySelectorAll('#compare tbody tr').length === %d && document.querySelectorAll('#compare .ring').length === %[1]d", len(protocols)))
	eval[chromedp.Void](f.tab, "scrollTo(0, document.querySelector('.worlds').getBoundingClientRect().top + scrollY - 230)")
}

// is waits, without time going by, until a script is true.
func (f *film) is(script string) {
	f.t.Helper()
	harness.Eventually(f.t, script, func() bool {
		eval[chromedp.Void](f.tab, "film.tick(0)")
		return eval[bool](f.tab, "Boolean("+script+")")
	})
}

// scenes are what is recorded. Each waits for what its caption says.
func (f *film) scenes() {
	f.caption("The machines that elect in production run in your browser, in a simulated network.")
	f.roll(2.5)

	// A leader is elected, and killed.
	f.cut("#" + link(`{"world": {"protocol": "quorum", "nodes": 5, "seconds": 20}, "time": 0}`))
	f.is("document.querySelector('.now')?.textContent.includes('event') && !document.querySelector('.now').textContent.includes('…')")
	f.caption("Five nodes. Nobody leads yet.")
	f.press("#transport", "▶ Play")
	f.when("document.querySelector('#said').textContent.includes('is elected')", 8)
	f.caption("n1 is elected: a majority has voted for it. It leads when its lease is proven.")
	f.when("document.querySelector('#said').textContent.includes('leads')", 8)
	f.roll(2.5)
	f.caption("Its process is killed …")
	f.press("#operate", "Kill")
	f.when("document.querySelector('#said').textContent.includes('token 2')", 8)
	f.caption("… its connections close, and n2 is elected three milliseconds later.")
	f.roll(3)
	f.caption("n2 leads as soon as all that was promised to n1 is over.")
	f.when("document.querySelector('#said').textContent.includes('leads')", 10)
	f.roll(1.5)
	f.press("#transport", "❚❚")
	f.press("#transport", "Previous turn")

	// The lanes, closer.
	f.caption("Outline: it believes that it leads. Light bar: its lease is valid by its own clock. Full bar: it truly leads.")
	f.press("#lanes", "Closer")
	f.press("#lanes", "Closer")
	f.roll(2)
	f.caption("Between the two bars nobody leads. They never overlap.")
	f.roll(1.5)

	// The pause of 45 seconds.
	f.caption("A leader freezes between its check and its write: a pause of 45 s, with a lease of 30 s.")
	f.cut("#story/lease/2")
	f.is("document.querySelector('#guide .nth')?.textContent === '2 of 6' && document.querySelector('.play').textContent.includes('Play')")
	eval[chromedp.Void](f.tab, `for (const name of ["All", "+", "+", "+"]) [...document.querySelectorAll("#lanes button")].find(b => b.textContent === name).click()`)
	f.roll(2.5)
	next := func(step int, caption string, read float64) {
		f.press("#guide", "Next")
		f.when(fmt.Sprintf("document.querySelector('#guide .nth').textContent === '%d of 6' && document.querySelector('.play').textContent.includes('Play')", step), 8)
		f.caption(caption)
		f.roll(read)
	}
	next(3, "Nobody has renewed the lease: n3 leads, with token 6.", 2)
	next(4, "n1 wakes after 45 s in the middle of its write, and still believes that it leads.", 2)
	next(5, "Its clock says that the lease is over. But its write has left, with token 5.", 1.5)
	next(6, "The resource has seen token 6, and refuses the write (✕). That is what a token is for.", 2.5)

	// Protocols side by side.
	f.caption("The same cut of the network, through four protocols.")
	f.cut("#" + link(`{"world": {"protocol": "quorum", "scenario": "minority-leader"}, "time": 0}`))
	f.is("document.querySelector('.world-name').textContent.includes('minority-leader') && !document.querySelector('.now').textContent.includes('…')")
	f.compared("quorum", "raft", "bully", "lease")
	f.press("#compare .fields", "▶ Play all")
	f.roll(3)
	f.caption("The bully counts no votes: it has a leader on each side of the cut. The others do not.")
	f.roll(3)
	f.caption("electlab page opens it. Nothing is sent anywhere. Now break it yourself.")
	f.roll(2.5)
}
