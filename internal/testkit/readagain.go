package testkit

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// ReadAgain is for fuzzing what reads a stored result: what is not refused in plain words is written and read again
// as it was.
func ReadAgain[T any, P interface {
	*T
	Write(io.Writer) error
}](t *testing.T, data []byte, read func(io.Reader) (P, error)) {
	t.Helper()
	res, err := read(bytes.NewReader(data))
	if err != nil {
		if !strings.HasPrefix(err.Error(), "read ") || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: the error is %v", data, err)
		}
		return
	}
	var first, second bytes.Buffer
	if err := res.Write(&first); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	again, err := read(bytes.NewReader(first.Bytes()))
	if err != nil {
		t.Fatalf("%q was read and written as\n%s\nwhich is refused: %v", data, first.Bytes(), err)
	}
	if err := again.Write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%q: %v; written\n%s\nand then\n%s", data, err, first.Bytes(), second.Bytes())
	}
}
