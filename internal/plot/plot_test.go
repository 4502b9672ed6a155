package plot_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/electd/elect/internal/plot"
)

var rewrite = flag.Bool("rewrite", false, "write what is drawn into testdata")

type drawer interface{ SVG(io.Writer) error }

func draw(t *testing.T, d drawer) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.SVG(&b); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.Bytes())
	var again bytes.Buffer
	if err := d.SVG(&again); err != nil || again.String() != b.String() {
		t.Errorf("drawn twice it is not the same (%v)", err)
	}
	return b.String()
}

// wellFormed holds that it is XML, has a title and a description that the root
// names, ids that are there once, and no coordinate that is not a number.
func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	ids := make(map[string]bool)
	var labelled []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "id" {
					if ids[a.Value] {
						t.Errorf("id %s twice", a.Value)
					}
					ids[a.Value] = true
				}
				if a.Name.Local == "aria-labelledby" {
					labelled = strings.Fields(a.Value)
				}
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s: %s=%q", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
	if len(labelled) != 2 || !ids[labelled[0]] || !ids[labelled[1]] {
		t.Errorf("labelled by %v; the ids are %v", labelled, ids)
	}
}

func TestGolden(t *testing.T) {
	var square, line, sum plot.Series
	square.Name, line.Name, sum.Name = "n²", "2n", "bully & friends"
	square.Line, square.Dashed, line.Line = true, true, true
	for n := 2.0; n <= 1024; n *= 2 {
		square.Points = append(square.Points, plot.Point{X: n, Y: n * n})
		line.Points = append(line.Points, plot.Point{X: n, Y: 2 * n})
		sum.Points = append(sum.Points, plot.Point{X: n, Y: n*n - n - 1})
	}
	for name, d := range map[string]drawer{
		"log":    &plot.Chart{Title: "Messages of one election", Subtitle: "a perfect network, one initiator", X: "nodes", Y: "messages", LogX: true, LogY: true, Series: []plot.Series{square, line, sum}},
		"linear": &plot.Chart{Title: "Failover", X: "seeds", Y: "ms", Series: []plot.Series{{Name: "a", Line: true, Points: []plot.Point{{X: 0, Y: 3}, {X: 1, Y: -4}, {X: 7, Y: 12.5}}}}},
		"bars": &plot.Bars{Title: "Two leaders at once", Unit: "ms", Log: true, Rows: []plot.Bar{
			{Name: "quorum", Value: 0, Class: "lease"}, {Name: "lease", None: true, Class: "lease"}, {Name: "bully", Value: 123456, Class: "no lease"},
			{Name: "ring", Value: 4, Label: "4 ms", Class: "no lease"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := draw(t, d)
			file := filepath.Join("testdata", name+".svg")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s has changed; look at the difference after: go test ./internal/plot -rewrite", file)
			}
		})
	}
}

// TestExtremes draws what is unusual and holds that it is still a drawing.
func TestExtremes(t *testing.T) {
	chart := func(log bool, points ...plot.Point) *plot.Chart {
		return &plot.Chart{Title: "t", LogX: log, LogY: log, Series: []plot.Series{{Name: "s", Line: true, Points: points}}}
	}
	for name, d := range map[string]drawer{
		"empty":         &plot.Chart{Title: "t"},
		"empty series":  &plot.Chart{Title: "t", LogY: true, Series: []plot.Series{{Name: "s"}}},
		"one point":     chart(false, plot.Point{X: 3, Y: 7}),
		"one negative":  chart(false, plot.Point{X: -3, Y: -7}),
		"one log":       chart(true, plot.Point{X: 3, Y: 7}),
		"one log round": chart(true, plot.Point{X: 10, Y: 1}),
		"zero":          chart(false, plot.Point{}),
		"tiny":          chart(true, plot.Point{X: 1e-300, Y: 1e-300}),
		"great":         chart(false, plot.Point{X: 1e300, Y: -1e300}, plot.Point{X: -1e300, Y: 1e300}),
		"great log":     chart(true, plot.Point{X: 1e-300, Y: 1e300}, plot.Point{X: 1e300, Y: 1e-300}),
		"near":          chart(false, plot.Point{X: 1e6, Y: 1e6}, plot.Point{X: 1e6 + 1, Y: 1e6 + 1e-3}),
		"near log":      chart(true, plot.Point{X: 7, Y: 7}, plot.Point{X: 7.0001, Y: 7.0001}),
		"strange text":  &plot.Chart{Title: "<&\">\x00\ufffe\xff", X: "]]>", Series: []plot.Series{{Name: "</text>", Points: []plot.Point{{X: 1, Y: 1}}}}},
		"no rows":       &plot.Bars{Title: "t"},
		"zero bar":      &plot.Bars{Title: "t", Rows: []plot.Bar{{Name: "a"}}},
		"zero log bar":  &plot.Bars{Title: "t", Log: true, Rows: []plot.Bar{{Name: "a"}}},
		"none":          &plot.Bars{Title: "t", Rows: []plot.Bar{{Name: "a", None: true, Value: math.NaN()}}},
	} {
		t.Run(name, func(t *testing.T) { draw(t, d) })
	}
	many := &plot.Chart{Title: "many", Series: make([]plot.Series, plot.MaxSeries)}
	for i := range many.Series {
		many.Series[i] = plot.Series{Name: "one of many", Points: []plot.Point{{X: 1, Y: 1}}}
	}
	draw(t, many)
}

func TestRefused(t *testing.T) {
	point := func(x, y float64) []plot.Series {
		return []plot.Series{{Name: "bully", Points: []plot.Point{{X: 1, Y: 1}, {X: x, Y: y}}}}
	}
	for name, c := range map[string]struct {
		d    drawer
		want string
	}{
		"no title":    {&plot.Chart{}, "no title"},
		"bars' title": {&plot.Bars{}, "no title"},
		"NaN":         {&plot.Chart{Title: "t", Series: point(1, math.NaN())}, `series "bully": point 1: y = NaN`},
		"infinite":    {&plot.Chart{Title: "t", Series: point(math.Inf(1), 1)}, `point 1: x = +Inf`},
		"zero, log":   {&plot.Chart{Title: "t", LogY: true, Series: point(1, 0)}, "logarithmic axis; want more than 0"},
		"below, log":  {&plot.Chart{Title: "t", LogX: true, Series: point(-1, 1)}, "x = -1 on a logarithmic axis"},
		"many":        {&plot.Chart{Title: "t", Series: make([]plot.Series, plot.MaxSeries+1)}, "want at most"},
		"bar":         {&plot.Bars{Title: "t", Rows: []plot.Bar{{Name: "a", Value: -1}}}, `row "a": value = -1; want 0 or more`},
		"bar NaN":     {&plot.Bars{Title: "t", Rows: []plot.Bar{{Name: "a", Value: math.NaN()}}}, "NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			err := c.d.SVG(&b)
			if err == nil || !strings.Contains(err.Error(), c.want) || b.Len() > 0 {
				t.Errorf("%v and %d bytes; want an error with %q and nothing written", err, b.Len(), c.want)
			}
		})
	}
	if err := (&plot.Chart{Title: "t"}).SVG(full{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", -2: "-2", 0.25: "0.25", 0.0001: "0.0001", 999: "999", 1000: "1000", 5000: "5000", 10_000: "10k", 12_345: "12.3k", 999_999: "1000k", 1e6: "1M", 2.5e9: "2.5G", 1e12: "1T", 1e15: "1e+15",
	} {
		if got := plot.Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]float64{0.11: 0.2, 1: 1, 1.5: 2, 3: 5, 5: 5, 7: 10, 99: 100} {
		if got := plot.Step(v); math.Abs(got-want) > 1e-12 {
			t.Errorf("Step(%v) = %v, want %v", v, got, want)
		}
	}
}
