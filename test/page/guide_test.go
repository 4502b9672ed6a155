package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// TestGuide uses the first screen, the stories and the challenges.
func TestGuide(t *testing.T) {
	chromium(t)
	s := serve(t, http.Dir(write(t)))
	for name, use := range map[string]func(t *testing.T, s *site){
		"first screen": firstScreen, "stories": everyStory, "story": oneStory, "links": guideLinks, "challenge": oneChallenge,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "first screen" {
				long.Full(t, "every story, in a browser")
			}
			use(t, s)
		})
	}
	if failed := s.failed(); len(failed) > 0 {
		t.Errorf("the page asked for what is not in its folder: %q", failed)
	}
}

// guided opens the page at a link, without motion: what moves is another test's. It counts the worlds that are opened.
func guided(t *testing.T, s *site, link string) *tab {
	t.Helper()
	b := open(t, s.URL)
	b.must(motion("reduce"), chromedp.Navigate(s.URL+under+link))
	b.until(ready)
	eval[chromedp.Void](b, `(call => { globalThis.worlds = 0; elect.call = (name, ...rest) => { if (name === "open") worlds++; return call(name, ...rest); }; })(elect.call)`)
	return b
}

// motion is what a visitor prefers.
func motion(value string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: value}},
		})
		return err
	})
}

// follow opens another link of the page.
func (b *tab) follow(link string) {
	b.t.Helper()
	b.must(chromedp.Navigate(eval[string](b, "location.href.split('#')[0]") + link))
}

// tale is a story as the machines tell it.
type tale struct {
	Name, Title string
	Steps       []struct {
		World json.RawMessage
		Says  string
		Look  string
		Event uint64
	}
}

// at waits until a step is shown: its sentence, and its event.
func (b *tab) at(s *tale, i int) {
	b.t.Helper()
	b.says("#guide .says", s.Steps[i].Says)
	b.says("#guide .nth", fmt.Sprintf("%d of %d", i+1, len(s.Steps)))
	b.until(fmt.Sprintf("document.querySelector('.now').textContent.replaceAll(',', '').includes('event %d of ') && document.querySelector('.play').textContent.includes('Play')", s.Steps[i].Event))
}

func (b *tab) story(name string) *tale {
	b.t.Helper()
	var s tale
	if err := json.Unmarshal([]byte(eval[string](b, fmt.Sprintf("elect.call('story', {name: %q}).then(JSON.stringify)", name))), &s); err != nil {
		b.t.Fatal(err)
	}
	return &s
}

// everyStory walks through every story by the keyboard. Each step is at the event that the machines say, and a world
// of several steps is opened once.
func everyStory(t *testing.T, s *site) {
	b := guided(t, s, "#stories")
	b.says(".screen", "An election, and a split vote")
	names := eval[[]string](b, "elect.call('catalogue').then(c => c.stories.map(s => s.name))")
	if len(names) < 15 {
		t.Fatalf("the catalogue has %d stories; want 15 at least", len(names))
	}
	for k, name := range names {
		story := b.story(name)
		if k == 0 {
			b.follow("#story/" + name)
		}
		opened := eval[int](b, "worlds")
		last := len(story.Steps) - 1
		worlds := 1
		for i := range story.Steps {
			if i > 0 {
				b.must(chromedp.KeyEvent("]"))
				if string(story.Steps[i].World) != string(story.Steps[i-1].World) {
					worlds++
				}
			}
			b.at(story, i)
			if got, want := eval[string](b, "location.hash"), fmt.Sprintf("#story/%s/%d", name, i+1); i > 0 && got != want {
				t.Errorf("%s, step %d: the address has %s; want %s", name, i+1, got, want)
			}
			if got := eval[string](b, "document.documentElement.dataset.look"); got != story.Steps[i].Look {
				t.Errorf("%s, step %d: the page looks at %s; want %s", name, i+1, got, story.Steps[i].Look)
			}
		}
		// The first world of the first story is opened before the count; those of the others by the end of the story before.
		if got := eval[int](b, "worlds") - opened; k == 0 && got != worlds || k > 0 && got != worlds-1 {
			t.Errorf("%s: %d worlds were opened for its steps; want %d", name, got, worlds)
		}
		b.must(chromedp.KeyEvent("]")) // there is no more
		b.says("#said", "This is the last step.")
		b.must(chromedp.KeyEvent("["))
		b.at(story, last-1)
		b.must(chromedp.KeyEvent("]"))
		b.at(story, last)
		if k+1 < len(names) {
			b.must(chromedp.Focus("#guide .guide-end a"), chromedp.KeyEvent(kb.Enter))
			b.until(fmt.Sprintf("location.hash === '#story/%s' && document.querySelector('#guide .nth').textContent.startsWith('1 of')", names[k+1]))
			b.at(b.story(names[k+1]), 0)
		}
	}
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// oneStory opens a step by its link, plays to the next one, and leaves the story with its world.
func oneStory(t *testing.T, s *site) {
	b := guided(t, s, "#story/split-brain/2")
	story := b.story("split-brain")
	b.at(story, 1)
	b.until("document.activeElement.id === 'guide-title'")
	looks(b, "story")
	b.must(motion("no-preference"))

	// On the way to the third step, another world, there is no motion; to the fourth there is, and it is skipped.
	b.must(chromedp.KeyEvent(kb.PageDown))
	b.at(story, 2)
	b.must(chromedp.KeyEvent(kb.PageDown))
	b.until("document.querySelector('.play').textContent.includes('Pause')")
	b.at(story, 3)
	b.must(chromedp.KeyEvent(kb.PageDown))
	b.until("document.querySelector('.play').textContent.includes('Pause')")
	b.must(chromedp.KeyEvent(kb.PageUp))
	b.at(story, 3)
	eval[chromedp.Void](b, "history.back()")
	b.at(story, 4)

	// What a visitor breaks in a step is not there in the next one.
	opened := eval[int](b, "worlds")
	b.press("#operate", "Kill")
	b.says("#operate .hands", "kill")
	b.must(chromedp.KeyEvent("]"))
	b.at(story, 5)
	b.until("!document.querySelector('#operate .hands')")
	if got := eval[int](b, "worlds") - opened; got != 1 {
		t.Errorf("%d worlds were opened after the visitor had changed one; want 1", got)
	}
	looks(b, "story-end")
	b.press("#guide", "Now break it yourself")
	b.until("!document.querySelector('#guide') && document.activeElement.closest('#operate')")
	b.says(".world-name", "quorum · minority-leader")
	b.until(fmt.Sprintf("document.querySelector('.now').textContent.replaceAll(',', '').includes('event %d of ')", story.Steps[5].Event))
	b.must(chromedp.Reload())
	b.until(ready)
	b.until(fmt.Sprintf("document.querySelector('.now').textContent.replaceAll(',', '').includes('event %d of ')", story.Steps[5].Event))

	// Another world is none of the story's; what a visitor breaks in its own is.
	b.follow("#story/split-brain/3")
	b.at(story, 2)
	b.press("#operate", "Kill")
	b.says("#operate .hands", "kill")
	b.says("#guide .nth", "3 of 6")
	b.must(chromedp.KeyEvent("w"))
	b.until("document.querySelector('#chooser').open")
	b.press("#chooser .scenarios li:first-child", "Open")
	b.until("!document.querySelector('#chooser').open && !document.querySelector('#guide') && !document.documentElement.dataset.look")
	if hash := eval[string](b, "location.hash"); strings.HasPrefix(hash, "#story/") {
		t.Errorf("the address still has the story: %s", hash)
	}
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// guideLinks opens links that are wrong. Each says how.
func guideLinks(t *testing.T, s *site) {
	b := guided(t, s, "#story/nobody")
	b.says(".problem", "The link has a story “nobody”; want one of election, ")
	b.says(".world-name", "quorum · calm world")
	for link, want := range map[string]string{
		"#story/election/99": "The link has step “99” of the story “election”; want 1 to 7.",
		"#story/election/x":  "The link has step “x” of the story “election”; want 1 to 7.",
		"#challenge/nobody":  "The link has a challenge “nobody”; want one of two-believe, ",
		"#challenge/quick/x": "The link cannot be read",
		"#nothing/at/all":    "The link cannot be read",
	} {
		b.follow(link)
		b.says(".problem", want)
	}
	b.follow("#story/election/2")
	b.at(b.story("election"), 1)
	b.until("!document.querySelector('.problem').textContent")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// oneChallenge loses a challenge, wins it by hand, and opens the link of how it was won.
func oneChallenge(t *testing.T, s *site) {
	b := guided(t, s, "#challenges")
	looks(b, "challenges")
	b.follow("#challenge/two-believe")
	b.says("#guide h2", "Make two believe")
	b.press("#guide", "Judge me")
	b.says("#guide [role=status]", "✗ Not yet: no two believed it at one time.")
	b.must(chromedp.Focus("#guide summary"), chromedp.KeyEvent(kb.Enter))
	b.until("document.querySelector('#guide details').open")

	b.must(chromedp.KeyEvent("e"))
	b.says("#operate select", "the leader (n1)")
	b.press("#operate", "Pause")
	b.says("#operate .hands", "pause n1 for 5 s")
	b.says("#guide [role=status]", "You have changed something since")
	b.press("#guide", "Judge me")
	b.says("#guide [role=status]", "✓ Won: ")
	looks(b, "challenge")
	b.press("#guide", "Share how")
	b.until("location.hash.startsWith('#challenge/two-believe/')")
	won := eval[string](b, "location.hash")

	b.follow("#start")
	b.says(".screen h2", "Who leads")
	b.follow(won)
	b.says("#operate .hands", "pause n1 for 5 s")
	b.says("#guide h2", "Make two believe")
	b.press("#guide", "Judge me")
	b.says("#guide [role=status]", "✓ Won: ")
	b.press("#guide", "Start over")
	b.until("!document.querySelector('#operate .hands')")

	// What is not allowed cannot be pressed.
	b.follow("#challenge/no-split")
	b.says("#guide", "Allowed: withdraw, pause, delay.")
	b.until("[...document.querySelectorAll('#operate .acts button')].filter(b => !b.disabled).map(b => b.textContent).join() === 'Pause,Withdraw'")

	// Each of the others can be won with the buttons of the page.
	choose := func(selector, value string) {
		eval[chromedp.Void](b, fmt.Sprintf("(e => { e.value = %q; e.dispatchEvent(new Event('change')); })(document.querySelector(%q))", value, selector))
	}
	leads := func() {
		b.must(chromedp.KeyEvent("e"))
		b.says("#operate select", "the leader (n")
		b.press("#transport", "Next turn")
		b.says("#said", "leads")
	}
	for name, act := range map[string]func(){
		"no-split": func() {
			for _, id := range []string{"n2", "n3", "n4", "n5"} {
				choose("#operate select", id)
				b.says("#node h2", id)
				b.press("#operate", "Withdraw")
				b.says("#operate .hands", "withdraw "+id)
			}
		},
		"two-prove": func() {
			leads()
			b.press("#operate", "Cut off")
			b.says("#operate .hands", "isolate n1")
			b.press("#operate", "Clock 90 % slow")
			b.says("#operate .hands", "clock-rate n1")
		},
		"stale-write": func() {
			b.must(chromedp.KeyEvent("e"))
			b.says("#operate select", "the leader (n5)")
			choose("#links select", "hold")
			b.press("#links", "n5 to n4: whole. Delay by 1.5 s")
			b.says("#operate .hands", "delay n5 → n4")
		},
		"quick": func() {
			leads()
			b.press("#operate", "Transfer")
			b.says("#operate .hands", "transfer")
		},
	} {
		b.follow("#challenge/" + name)
		b.until(fmt.Sprintf("document.querySelector('#guide h2')?.textContent === 'Challenge ' + %q && !document.querySelector('#operate .hands')",
			eval[string](b, fmt.Sprintf("elect.call('catalogue').then(c => c.challenges.find(c => c.name === %q).title)", name))))
		b.until("!document.querySelector('.now').textContent.includes('…')")
		act()
		b.press("#guide", "Judge me")
		b.until("/Won|Not yet/.test(document.querySelector('#guide [role=status]').textContent)")
		if said := eval[string](b, "document.querySelector('#guide [role=status]').textContent"); !strings.Contains(said, "✓ Won: ") {
			t.Errorf("%s: %s", name, said)
		}
	}

	// Another world is none of the challenge's.
	b.follow("#" + link(`{"world": {"protocol": "raft", "scenario": "crash"}, "event": 9}`))
	b.until("!document.querySelector('#guide')")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// firstScreen chooses by the keyboard, and comes back.
func firstScreen(t *testing.T, s *site) {
	b := guided(t, s, "")
	b.says(".screen h2", "Who leads")
	if got := eval[int](b, "document.querySelectorAll('.screen .choice').length"); got != 3 {
		t.Errorf("the first screen has %d choices; want 3", got)
	}
	if eval[bool](b, "document.querySelector('main:not(.screen)').checkVisibility()") {
		t.Error("the world is behind the first screen, and can be seen")
	}
	looks(b, "first")
	choose := func(link string) {
		b.must(chromedp.Focus(fmt.Sprintf("a[href='#%s']", link)), chromedp.KeyEvent(kb.Enter))
		b.until("document.activeElement.id === 'screen-title'")
	}
	choose("stories")
	b.says(".screen", "The lease, the pause of 45 seconds")
	looks(b, "stories")
	choose("start")
	choose("questions")
	b.must(chromedp.Focus(".screen summary"), chromedp.KeyEvent(kb.Enter))
	b.until("document.querySelector('.screen details').open")
	looks(b, "questions")
	if got := eval[int](b, "[...document.querySelectorAll('.screen details')].filter(d => d.querySelector('summary').textContent && d.querySelector('a[href^=\"#story/\"]')).length"); got < 9 {
		t.Errorf("%d questions have a story; want 9 at least", got)
	}
	b.must(chromedp.Focus(".screen details a"), chromedp.KeyEvent(kb.Enter))
	b.says("#guide", "An election, and a split vote")
	b.follow("#start")
	b.until("!document.querySelector('#guide') && document.querySelector('.screen')")

	// A key of the world leaves the screen, and so does the free world.
	b.must(chromedp.KeyEvent("e"))
	b.until("!document.querySelector('.screen') && document.querySelector('main:not(.screen)').checkVisibility()")
	b.follow("#challenges")
	b.must(chromedp.Focus(".screen .choice"), chromedp.KeyEvent(kb.Enter))
	b.until("!document.querySelector('.screen')")
	b.says(".world-name", "quorum · calm world")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the console says %q; want nothing", said)
	}
}

// looks has axe look at the page on a desk and on a phone, in light and dark, and keeps pictures.
func looks(b *tab, name string) {
	b.t.Helper()
	for _, size := range []struct{ width, height int64 }{{390, 844}, {1440, 900}} {
		for _, scheme := range []string{"light", "dark"} {
			b.must(chromedp.EmulateViewport(size.width, size.height))
			if size.width > 1000 {
				eval[chromedp.Void](b, "scrollTo(0, 0)")
			}
			violations(b, scheme, fmt.Sprintf("%s at %d", name, size.width))
			if wide := eval[[]string](b, `document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
				.filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".scroll, .unseen")).map(e => e.outerHTML.slice(0, 120))`); len(wide) > 0 {
				b.t.Errorf("%s is wider than %d: %s", name, size.width, strings.Join(wide, ", "))
			}
			small := eval[[]string](b, `[...document.querySelectorAll("#guide button, .choice")].filter(b => b.getBoundingClientRect().height < 44).map(b => b.textContent)`)
			if size.width == 390 && len(small) > 0 {
				b.t.Errorf("%s: lower than 44 px: %s", name, strings.Join(small, ", "))
			}
			ctx, cancel := context.WithTimeout(b.ctx, harness.Patience)
			picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
			cancel()
			if err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(b.t.ArtifactDir(), fmt.Sprintf("%s-%d-%s.png", name, size.width, scheme)), picture, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.must(motion("reduce"))
}
