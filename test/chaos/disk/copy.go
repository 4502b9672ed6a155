//go:build linux

package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// copyTree copies directories, files and symbolic links, with their modes. Other files have no
// content. Files that vanish meanwhile are left out.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		err = copyOne(path, filepath.Join(to, rel), e.Type())
		if errors.Is(err, fs.ErrNotExist) {
			if _, here := os.Lstat(path); errors.Is(here, fs.ErrNotExist) {
				return nil
			}
		}
		return err
	})
}

func copyOne(from, to string, kind fs.FileMode) error {
	switch kind {
	case fs.ModeDir:
		i, err := os.Lstat(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		return os.Chmod(to, i.Mode().Perm()|0o700)
	case fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case 0:
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		i, err := os.Lstat(from)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, i.Mode().Perm())
	}
	return nil
}

// export writes the content of a directory of a tree to a real one.
func (i *inode) export(to string) error {
	var all error
	for name, at := range i.names {
		path := filepath.Join(to, name)
		var err error
		switch {
		case at.isDir():
			if err = os.Mkdir(path, fs.FileMode(at.mode&0o777|0o700)); err == nil {
				err = at.export(path)
			}
		case at.isFile():
			err = os.WriteFile(path, at.content.live, fs.FileMode(at.mode&0o777))
		case at.target != "":
			err = os.Symlink(at.target, path)
		}
		all = errors.Join(all, err)
	}
	return all
}
