//go:build linux

package judge

import (
	"bytes"
	"errors"
	"html/template"
	"os"
	"path/filepath"
)

// page is what WriteHTML fills in. What came from outside is escaped by the
// template, and in the pictures by clean.
const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{.Title}}</title>
<style>
body { font: 14px/1.4 sans-serif; margin: 1em; color: #222; }
pre { background: #f6f6f6; padding: .7em; overflow-x: auto; }
h2 { font-size: 16px; margin: 1.2em 0 .3em; }
iframe { width: 100%; height: 34em; border: 1px solid #ccc; }
.timeline text { font: 11px sans-serif; }
.timeline .axis { fill: #777; }
.grid { stroke: #ddd; }
.violation { stroke: #d00; stroke-width: 1.5; stroke-dasharray: 4 2; }
.lead { fill: #2a7f3f; } .zombie { fill: #d00; }
.well { fill: #cfe8d4; } .idle { fill: #e8eef5; } .boots { fill: #fff0b3; } .unwell { fill: #f4b183; } .frozen { fill: #7fb2e5; } .down { fill: #999; }
.broken { fill: #c58ad6; }
.able { fill: #cfe8d4; } .leaderless { fill: #d00; }
.fault { fill: #e2c9a1; stroke: #b08d57; stroke-width: .3; }
.key span { display: inline-block; padding: 0 .5em; margin-right: .4em; }
</style>
<h1>{{.Title}}</h1>
<pre>{{.Text}}</pre>
<p class="key"><span style="background:#2a7f3f;color:#fff">leads</span><span style="background:#cfe8d4">well · a majority could elect</span><span style="background:#fff0b3">boots</span><span
style="background:#f4b183">not well</span><span style="background:#7fb2e5">frozen</span><span style="background:#999">down</span><span style="background:#c58ad6">links broken</span><span
style="background:#e2c9a1">fault</span><span style="background:#d00;color:#fff">no leader · zombie · violation</span></p>
{{range .Pictures}}<h2>{{.Title}}</h2>
{{.SVG}}
{{end}}{{range .Excerpts}}<h2>{{.Title}}</h2>
<iframe sandbox="allow-scripts" srcdoc="{{.Page}}"></iframe>
{{end}}</html>
`

// WriteHTML writes the report, timelines, and porcupine's pages about what is not
// linearizable to a file that needs no other.
func (r *Report) WriteHTML(path string) error {
	if r.run == nil {
		return errors.New("judge: a report that Judge has not made has no history")
	}
	type picture struct {
		Title string
		SVG   template.HTML
	}
	type embedded struct{ Title, Page string }
	data := struct {
		Title, Text string
		Pictures    []picture
		Excerpts    []embedded
	}{Title: "Run " + filepath.Base(r.run.dir), Text: r.String()}
	rows := r.run.rows()
	for _, v := range r.views() {
		data.Pictures = append(data.Pictures, picture{v.title, template.HTML(r.run.timeline(rows, v.span, r.Violations))})
	}
	for _, e := range r.excerpts {
		data.Excerpts = append(data.Excerpts, embedded{e.title, string(e.page)})
	}
	t, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}
