// Command build bundles the sources of the page and the code of others in vendor into internal/webpage/dist, which is
// committed, so that building electlab or elect does not need this command. go generate runs it. Its one argument is the
// folder of the page, lab/page if there is none. An error of the sources is on stderr, and leaves dist as it was.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

//go:generate go run . ..

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	page := filepath.Join("lab", "page") // from the root of the repository
	if len(args) == 1 {
		page = args[0]
	}
	files, err := bundle(page)
	if err != nil {
		return err
	}
	dist := dist(page)
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.Mkdir(dist, 0o755); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dist, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// dist is the folder of what the page is built into.
func dist(page string) string { return filepath.Join(page, "..", "..", "internal", "webpage", "dist") }

// bundle returns the files of dist. The names of scripts and styles have a hash of their content, so that browsers may
// keep them for ever.
func bundle(page string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	index, err := os.ReadFile(filepath.Join(page, "src", "index.html"))
	if err != nil {
		return nil, err
	}
	worker, err := build(page, files, "worker", "worker.js", nil)
	if err != nil {
		return nil, err
	}
	app, err := build(page, files, "app", "main.js", map[string]string{"WORKER": `"` + worker + `"`})
	if err != nil {
		return nil, err
	}
	style, err := build(page, files, "style", "style.css", nil)
	if err != nil {
		return nil, err
	}
	offline, err := build(page, files, "offline", "offline.js", nil)
	if err != nil {
		return nil, err
	}
	files["offline.js"] = files[offline] // browsers ask for it anew, at one address for all versions
	delete(files, offline)
	for src, name := range map[string]string{`"main.js"`: app, `"style.css"`: style} {
		if bytes.Count(index, []byte(src)) != 1 {
			return nil, fmt.Errorf("src/index.html: %s is not there once; want one reference to replace", src)
		}
		index = bytes.ReplaceAll(index, []byte(src), []byte(`"`+name+`"`))
	}
	files["index.html"] = index
	files["licences.txt"], err = licences(filepath.Join(page, "vendor"))
	return files, err
}

// build bundles one entry, adds it to files, and returns its name.
func build(page string, files map[string][]byte, name, entry string, define map[string]string) (string, error) {
	vendor, err := filepath.Abs(filepath.Join(page, "vendor"))
	if err != nil {
		return "", err
	}
	src, err := filepath.Abs(filepath.Join(page, "src"))
	if err != nil {
		return "", err
	}
	in := func(file string) string { return filepath.Join(vendor, file) }
	result := api.Build(api.BuildOptions{
		AbsWorkingDir:       src,
		EntryPointsAdvanced: []api.EntryPoint{{InputPath: entry, OutputPath: name}},
		EntryNames:          "[name]-[hash]",
		Outdir:              dist(page),
		Bundle:              true,
		MinifyWhitespace:    true,
		MinifyIdentifiers:   true,
		MinifySyntax:        true,
		Format:              api.FormatIIFE, // no module: a page that was opened as a file can say what is wrong
		Engines:             []api.Engine{{Name: api.EngineChrome, Version: "123"}, {Name: api.EngineFirefox, Version: "120"}, {Name: api.EngineSafari, Version: "17.5"}},
		Charset:             api.CharsetUTF8,
		LegalComments:       api.LegalCommentsNone, // licences.txt has them
		Define:              define,
		Alias: map[string]string{
			"preact": in("preact.js"), "preact/hooks": in("preact-hooks.js"), "htm": in("htm.js"),
			"@preact/signals": in("signals.js"), "@preact/signals-core": in("signals-core.js"),
		},
		LogLevel: api.LogLevelSilent, // what is wrong is returned
	})
	var wrong []error
	for _, m := range slices.Concat(result.Errors, result.Warnings) {
		at := ""
		if l := m.Location; l != nil {
			at = fmt.Sprintf("%s:%d: ", l.File, l.Line)
		}
		wrong = append(wrong, errors.New(at+m.Text))
	}
	if len(wrong) > 0 {
		return "", errors.Join(wrong...)
	}
	if n := len(result.OutputFiles); n != 1 {
		return "", fmt.Errorf("%s: it became %d files; want 1", entry, n)
	}
	out := result.OutputFiles[0]
	file := filepath.Base(out.Path)
	files[file] = out.Contents
	return file, nil
}

// licences puts the licences of the code of others into one text.
func licences(vendor string) ([]byte, error) {
	texts := make(map[string][]byte)
	found, err := filepath.Glob(filepath.Join(vendor, "*.LICENSE"))
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		if texts[strings.TrimSuffix(filepath.Base(path), ".LICENSE")], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	b.WriteString("The page is part of elect, under the Apache License 2.0. It contains code of others, under these licences.\n")
	b.WriteString("wasm_exec.js and the runtime in machines.wasm are of the Go project; their licence is at https://go.dev/LICENSE.\n")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "\n== %s\n\n%s\n", name, bytes.TrimSpace(texts[name]))
	}
	return b.Bytes(), nil
}
