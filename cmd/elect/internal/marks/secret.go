package marks

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/electd/elect/fence/fencehttp"
)

// secretName is the file of a directory of marks with the secret of its guard.
const secretName = "claim.secret"

// SecretOf is the file with the secret of the guard that has these marks, which Install has
// made; "" if the marks are not those of a directory.
func SecretOf(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	p, err := openFile(u)
	if err != nil {
		return ""
	}
	return filepath.Join(string(p), secretName)
}

// makeSecret makes the secret of a directory of marks, unless there is one: for this user
// alone, or for the directory's group too where the directory gives that its files and the
// right to write (setgid). It is complete when it has its name.
func makeSecret(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(secretName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info.Mode()&fs.ModeSetgid != 0 && info.Mode()&0o020 != 0 {
		mode = 0o640
	}
	temp := secretName + "-" + rand.Text()
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", secretName, err)
	}
	defer func() { _ = root.Remove(temp) }()
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	_, err = f.WriteString(base64.RawURLEncoding.EncodeToString(random[:]) + "\n")
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", secretName, err)
	}
	if err := root.Link(temp, secretName); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", secretName, err)
	}
	// A lost secret is made again by the next Install: the directory's own sync may come later.
	_, err = fencehttp.ReadSecret(filepath.Join(dir, secretName))
	return err
}
