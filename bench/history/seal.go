package history

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrDamaged is returned, wrapped with the file and the line, for a history that was cut short, edited, or of which a
// file is missing. It gets no verdict.
var ErrDamaged = errors.New("history is damaged, and gets no verdict")

// A sealed file is lines of JSON, the last of which counts and sums up those before.
type sealed struct {
	file  *os.File
	out   *bufio.Writer
	sum   hash.Hash
	lines int64
	err   error // the first failure to write
}

// seal is a sealed file's closing line.
type seal struct {
	lines int64
	sum   string
}

const (
	// sealPrefix is how a closing line, and no other, begins.
	sealPrefix = `{"lines":`
	// longestSeal is no shorter than any closing line, in bytes.
	longestSeal = 128
)

func (s seal) String() string { return fmt.Sprintf(`{"lines":%d,"sha256":"%s"}`, s.lines, s.sum) }

// createSealed makes a file that must not exist.
func createSealed(path string) (*sealed, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	return &sealed{file: f, sum: sum, out: bufio.NewWriterSize(io.MultiWriter(f, sum), 64<<10)}, nil
}

// line writes one line, which ends in a newline.
func (s *sealed) line(text []byte) {
	s.lines++
	if _, err := s.out.Write(text); err != nil && s.err == nil {
		s.err = err
	}
}

// close writes the closing line.
func (s *sealed) close() (seal, error) {
	flushed := s.out.Flush()
	closing := seal{s.lines, hex.EncodeToString(s.sum.Sum(nil))}
	_, written := fmt.Fprintln(s.file, closing)
	return closing, errors.Join(s.err, flushed, written, s.file.Close())
}

// abandon leaves the file without a closing line, so that nobody takes it for a whole one.
func (s *sealed) abandon() error { return errors.Join(s.out.Flush(), s.file.Close()) }

// readSealed hands each line but the closing one, numbered from 1, to see. A failure wraps ErrDamaged.
func readSealed(path string, see func(number int64, line []byte) error) (seal, error) {
	f, err := os.Open(path)
	if err != nil {
		return seal{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close()
	in, sum := bufio.NewReaderSize(f, 1<<20), sha256.New()
	var last []byte
	for number := int64(0); ; number++ {
		line, err := in.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return checkSeal(path, string(last), seal{number - 1, hex.EncodeToString(sum.Sum(nil))})
		}
		if err != nil {
			return seal{}, damaged(path, number+1, "it has no end: the file was cut short (%v)", err)
		}
		if number > 0 {
			sum.Write(last)
			if err := see(number, last); err != nil {
				return seal{}, damaged(path, number, "%v", err)
			}
		}
		last = append(last[:0], line...)
	}
}

// checkSeal compares a closing line with what it should be.
func checkSeal(path, last string, want seal) (seal, error) {
	switch {
	case last == want.String()+"\n":
		return want, nil
	case strings.HasPrefix(last, sealPrefix):
		return seal{}, damaged(path, want.lines+1, "the checksum does not fit the lines before it: the file was edited")
	}
	return seal{}, damaged(path, max(1, want.lines+1), "it is no closing line: the run was killed, or the file was cut short")
}

func damaged(path string, line int64, format string, args ...any) error {
	return fmt.Errorf("%w: %s, line %d: %s", ErrDamaged, filepath.ToSlash(path), line, fmt.Sprintf(format, args...))
}
