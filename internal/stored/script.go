package stored

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// A Script is one of the user's that took part as a strategy: what is stored says exactly
// which.
type Script struct {
	Name   string `json:"name"`   // of the strategy: script:old
	File   string `json:"file"`   // as it was named
	SHA256 string `json:"sha256"` // of the file
	Text   string `json:"text"`
	// The text is not the file's: passwords are left out of it.
	Masked bool `json:"masked,omitempty"`
}

// NewScript is a script that was read from a file.
func NewScript(name, file, text string) Script {
	sum := sha256.Sum256([]byte(text))
	return Script{Name: name, File: file, SHA256: hex.EncodeToString(sum[:]), Text: text}
}

// Flag is the value of --script that names it.
func (s Script) Flag() string {
	_, name, _ := strings.Cut(s.Name, ":")
	return name + "=" + s.File
}

// String says which script it is: "script:old is old.lua, SHA-256 ...".
func (s Script) String() string {
	text := s.Name + " is " + s.File + ", SHA-256 " + s.SHA256
	if s.Masked {
		text += " (of the file; the text that is stored has no passwords)"
	}
	return text
}
