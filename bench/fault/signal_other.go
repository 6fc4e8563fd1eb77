//go:build !unix

package fault

import "errors"

// canPause says that processes can be stopped and continued here.
const canPause = false

var errNoSignals = errors.New("this operating system cannot stop a process and continue it")

func pause(int) error  { return errNoSignals }
func resume(int) error { return errNoSignals }
