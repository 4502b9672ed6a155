//go:build linux || darwin || freebsd

package file

import (
	"io"
	"os"

	"github.com/electd/elect/fence"
	dirs "github.com/electd/elect/internal/place"
)

// writeRecord puts r in place. It syncs nothing: after a crash of the machine there is no leader, and the record
// counts only while there is one.
func (p *place) writeRecord(r *record) error {
	name := p.path + "/" + recordName
	b, err := r.encode()
	if err != nil {
		return err
	}
	f, err := p.at.Replace(recordNewName, os.O_WRONLY, 0o600)
	if err != nil {
		return explainPlace(err)
	}
	p.access.apply(int(f.Fd()), name, p.log)
	_, err = f.Write(b)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return explain("write", p.path+"/"+recordNewName, err)
	}
	if err := p.at.Rename(recordNewName, recordName); err != nil {
		return explainPlace(err)
	}
	return nil
}

// readRecord reads the record in an open directory. It also returns the record's open file: while that is open, no
// later record can have the same inode. An error is that of the file system, unexplained, or says that the content is
// wrong; the file may be open even then.
func readRecord(dir *dirs.Dir) (*record, *os.File, error) {
	f, err := dir.Open(recordName, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err != nil {
		return nil, f, err
	}
	r, err := decodeRecord(b)
	return r, f, err
}

// lastToken returns the token of the record, or 0 if there is no readable one: a crash of the machine may have left
// anything.
func (p *place) lastToken() fence.Token {
	r, f, err := readRecord(p.at)
	if f != nil {
		defer f.Close()
	}
	if err != nil {
		return 0
	}
	return r.Token
}
