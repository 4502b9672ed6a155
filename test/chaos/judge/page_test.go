//go:build linux

package judge

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/electd/elect/test/chaos/lives"
	"github.com/electd/elect/test/chaos/network"
)

const evil = `</script><script>alert("1")</script>' & ` + "\x01"

// hostile is a run whose names are made to break out of any text that they are put into, and that
// fails nearly every check.
func hostile() *script {
	s := sound()
	s.lives[2].Start = 19 * second
	s.at(12*second, Event{Kind: Fault, Fault: evil, ID: 7, Node: 0})
	s.at(12*second, Event{Kind: Links, Node: NoNode, Links: network.Merge(network.Isolate(3, 0), network.Slow(3, time.Second, time.Second))})
	s.at(14*second, Event{Kind: Links, Node: NoNode})
	s.at(14*second, Event{Kind: Heal, Fault: evil, ID: 7, Node: NoNode})
	s.at(15*second, Event{Kind: Stop, Node: 1, Part: evil})
	s.at(16*second, Event{Kind: Cont, Node: 1, Part: evil})
	s.find("n2", "read", 4).seen = evil
	s.find("n2", "peek", 4).seen = evil
	for _, o := range s.ops {
		if o.client == "n2" {
			o.client = "<b>n2"
		}
	}
	s.saw("<i>w", 22*second, 0, 5)
	s.watch["<i>w"][0]["leader"] = map[string]any{"id": evil, "token": "5"}
	return s
}

func TestPage(t *testing.T) {
	r := hostile().judge(t)
	for _, c := range []string{CheckOverlap, CheckMutex, CheckFenced, CheckRegister, CheckTwin, CheckWatch} {
		if r.Counts[c] == 0 {
			t.Errorf("no violation of %s in\n%v", c, &r)
		}
	}
	path := filepath.Join(t.ArtifactDir(), "run.html")
	if err := r.WriteHTML(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)

	frames := regexp.MustCompile(`(?s)<iframe sandbox="allow-scripts" srcdoc="([^"]*)"></iframe>`).FindAllStringSubmatch(text, -1)
	if len(frames) != 4 { // mutex, fenced, register, twin
		t.Errorf("%d pages of porcupine's", len(frames))
	}
	for _, f := range frames {
		inner := html.UnescapeString(f[1])
		if !strings.Contains(inner, "render(data)") || strings.Count(inner, "<script") != 1 || strings.Contains(inner, evil) || strings.Contains(inner, "<b>") {
			t.Errorf("a page of porcupine's is not what it must be: %.200s", inner)
		}
		// What the page takes for HTML has to be harmless in HTML.
		var data struct {
			Partitions []struct {
				History []struct{ Metadata string }

				PartialLinearizations [][]struct{ StateDescription string }
			}
		}
		_, rest, _ := strings.Cut(inner, "const data = ")
		if err := json.NewDecoder(strings.NewReader(rest)).Decode(&data); err != nil || len(data.Partitions) != 1 {
			t.Fatalf("%v: %d partitions", err, len(data.Partitions))
		}
		for _, h := range data.Partitions[0].History {
			if strings.Contains(h.Metadata, "<") {
				t.Errorf("metadata %q", h.Metadata)
			}
		}
		for _, steps := range data.Partitions[0].PartialLinearizations {
			for _, s := range steps {
				if strings.Contains(s.StateDescription, "<") {
					t.Errorf("state %q", s.StateDescription)
				}
			}
		}
		text = strings.Replace(text, f[0], "", 1)
	}
	if strings.Contains(text, "<script") || strings.Contains(text, "<b>") || strings.Contains(text, "<i>") {
		t.Error("a name has become an element")
	}
	if m := regexp.MustCompile(`(src|href|url)\s*[=(]`).FindString(text); m != "" {
		t.Errorf("the page needs another file: %s", m)
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1)
	if len(pictures) < 3 {
		t.Errorf("%d pictures", len(pictures))
	}
	for _, p := range pictures {
		for d := xml.NewDecoder(strings.NewReader(p)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %.300s", err, p)
			}
		}
	}
	for _, want := range []string{`class="lead"`, `class="well"`, `class="boots"`, `class="broken"`, `class="frozen"`, `class="able"`, `class="fault"`, `class="violation"`, "n1→n2 cut takes 1s to 2s more"} {
		if !strings.Contains(pictures[0], want) {
			t.Errorf("no %s in the first picture", want)
		}
	}
}

// TestLongPage: a run of hours with very many tenures is a picture like any other.
func TestLongPage(t *testing.T) {
	s := &script{closed: true}
	s.begin(second, 5)
	at := 2 * second
	for i := range int64(20_000) {
		s.lives = append(s.lives, lives.Life{Token: i + 1, Pid: 1, Node: i % 5, Kind: lives.Library, Start: at, Last: at + second})
		s.at(at, Event{Kind: Fault, Fault: "kill", ID: int(i + 1), Node: 0})
		s.at(at+second, Event{Kind: Heal, Fault: "kill", ID: int(i + 1), Node: 0})
		at += second + second/2
	}
	s.at(at, Event{Kind: Over, Node: NoNode})
	r := s.judge(t)
	if !r.OK() {
		t.Fatal(&r)
	}
	path := filepath.Join(t.TempDir(), "run.html")
	if err := r.WriteHTML(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 8<<20 {
		t.Errorf("the page has %d bytes", info.Size())
	}
	t.Logf("judged in %v, a page of %d KiB", r.Took.Round(time.Millisecond), info.Size()>>10)
}

// TestPageOfNothing: an empty report has no page.
func TestPageOfNothing(t *testing.T) {
	var r Report
	if err := r.WriteHTML(filepath.Join(t.TempDir(), "x.html")); err == nil {
		t.Error("a page was written")
	}
	if text := r.String(); !strings.Contains(text, "none") {
		t.Errorf("%s", text)
	}
	r.Add(Violation{Check: "seen", Node: NoNode, Text: "by another"})
	if text := r.String(); r.OK() || r.All() != 1 || !strings.Contains(text, "1: seen 1") || !strings.Contains(text, "by another") {
		t.Errorf("%s", text)
	}
}
