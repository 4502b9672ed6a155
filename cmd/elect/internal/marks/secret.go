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
	"github.com/electd/elect/internal/place"
)

// secretName is the file in a directory of marks that holds the secret of its guard.
const secretName = "claim.secret"

// SecretOf is the file with the secret of the guard of these marks, which Install has made; "" if the marks are not
// in a directory.
func SecretOf(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	p, err := openFile(u, Config{})
	if err != nil {
		return ""
	}
	return filepath.Join(p.path, secretName)
}

// makeSecret makes the secret of a directory of marks, unless it exists: for this user alone, or also for the
// directory's group if the directory gives it its files and the right to write (setgid). It is complete when it has
// its name. If two are made at the same time one is lost.
func (p filePlace) makeSecret() error {
	dir, err := place.At{Path: p.path, Shared: p.shared}.Open()
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Lstat(secretName); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mode := fs.FileMode(0o600)
	if m := dir.Info().Mode; m&fs.ModeSetgid != 0 && m&0o020 != 0 {
		mode = 0o640
	}
	temp := secretName + "-" + rand.Text()
	f, err := dir.Create(temp, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Remove(temp) }()
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	_, err = f.WriteString(base64.RawURLEncoding.EncodeToString(random[:]) + "\n")
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", secretName, err)
	}
	if err := errors.Join(dir.Rename(temp, secretName), dir.Sync()); err != nil {
		return err
	}
	_, err = fencehttp.ReadSecret(filepath.Join(p.path, secretName))
	return err
}
