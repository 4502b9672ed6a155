package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// format is the format of all files of a data directory.
const format = 1

// maxSealed is the greatest length of a sealed file, in bytes.
const maxSealed = 64 << 10

// castagnoli is CRC-32C.
func castagnoli(data ...[]byte) (sum uint32) {
	table := crc32.MakeTable(crc32.Castagnoli) // package crc32 makes it once
	for _, d := range data {
		sum = crc32.Update(sum, table, d)
	}
	return sum
}

// seal writes v as a line of JSON and the checksum of that line below it, so that people can read it and damage is
// detected.
func seal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return fmt.Appendf(b.Bytes(), "crc32c %08x\n", castagnoli(b.Bytes())), nil
}

// unseal reads what seal wrote, and nothing else.
func unseal(text []byte, v any) error {
	if len(text) > maxSealed {
		return fmt.Errorf("it is longer than %d bytes", maxSealed)
	}
	i := bytes.IndexByte(text, '\n') + 1
	if i == 0 {
		return errors.New("it is cut short")
	}
	if want := fmt.Sprintf("crc32c %08x\n", castagnoli(text[:i])); string(text[i:]) != want {
		return fmt.Errorf("its checksum is wrong: the second line is %.40q; want %q", text[i:], want)
	}
	// The format comes first: another one may have other fields.
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text[:i], &head); err != nil {
		return err
	}
	if head.Format != format {
		return fmt.Errorf("it has format %d; this program reads format %d", head.Format, format)
	}
	d := json.NewDecoder(bytes.NewReader(text[:i]))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object on its line")
	}
	return nil
}
