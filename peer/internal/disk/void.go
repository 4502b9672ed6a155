package disk

import (
	"fmt"
	"strings"
)

// voidFile is the content of the file void.
type voidFile struct {
	Format int    `json:"format"`
	Says   string `json:"says"`
}

// maxWhy is the greatest length of the reason, in bytes.
const maxWhy = 4 << 10

// Void marks the directory durably as void, with the reason, for people: [Open] refuses it from then on. One
// goroutine at a time may call it, and it waits for the disk. The other files of the directory stay as they are.
func (d *Dir) Void(says string) error {
	text, err := seal(voidFile{format, strings.ToValidUTF8(says[:min(len(says), maxWhy)], "?")})
	if err == nil {
		err = replace(d.at, voidName, text)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.path, voidName, err)
	}
	return nil
}

// voided is why the directory is void, "" if it is not. An unreadable file counts as a mark too.
func voided(at folder) (string, error) {
	text, err := read(at, voidName, maxSealed)
	if err != nil || text == nil {
		return "", err
	}
	var f voidFile
	if err := unseal(text, &f); err != nil {
		return fmt.Sprintf("it has a file %s, which says that it must not be used any more, and cannot be read: %v", voidName, err), nil
	}
	if f.Says == "" {
		return "it must not be used any more", nil
	}
	return f.Says, nil
}

const voidName = "void"
