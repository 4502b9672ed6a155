// Package webpage has the files of the page in which people see elections, as data: those of the laboratory, and of
// elect demo --web. Package lab/page/build makes them from lab/page/src; the machines that the laboratory's page runs are
// not among them. Nothing in it changes, so any number of goroutines may use it, and nothing fails.
package webpage

import (
	"embed"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Files are the files of the page, without folders: index.html is the first.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the name of the folder is valid
	}
	return files
}
