package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/electd/elect/internal/cli/exit"
)

// maxFile is the greatest size of a file that a flag names and that is read whole, in bytes.
const maxFile = 1 << 20

// readFile reads the file that a flag names. It refuses what is no regular file: a device may have no end, and a pipe no
// writer.
func readFile(flag, path string) (text []byte, mode fs.FileMode, err error) {
	defer func() {
		if err != nil {
			err = exit.With(exit.CannotCreate, fmt.Errorf("%s: %w", flag, err))
		}
	}()
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no regular file; want one", path)
	}
	if text, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes; want fewer", path, maxFile)
	}
	return text, info.Mode(), err
}

// keyPair reads the certificate and the key in the files that two flags name.
func keyPair(certFlag, cert, keyFlag, key string) (pair tls.Certificate, err error) {
	chain, _, err := readFile(certFlag, cert)
	if err != nil {
		return pair, err
	}
	private, _, err := readFile(keyFlag, key)
	if err != nil {
		return pair, err
	}
	if pair, err = tls.X509KeyPair(chain, private); err != nil {
		return pair, exit.Usagef("%s %s, %s %s: %w", certFlag, cert, keyFlag, key, err)
	}
	return pair, nil
}

// notBlank refuses flags that are given and blank. A variable that is empty counts as unset.
func notBlank(set *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		f := set.Lookup(name)
		value := f.Value.String()
		if strings.TrimSpace(value) != "" || value == "" && !f.Changed {
			continue
		}
		what, _ := pflag.UnquoteUsage(f)
		if !f.Changed {
			return exit.Usagef("%s is blank; want %s, or the variable unset", variable(name), what)
		}
		return exit.Usagef("--%s is blank; want %s, or the flag left out", name, what)
	}
	return nil
}
