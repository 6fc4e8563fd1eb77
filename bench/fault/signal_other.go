//go:build !unix

package fault

import (
	"fmt"

	"github.com/marketsim/marketsim/market/backend"
)

// canPause says that processes can be stopped and continued here.
const canPause = false

var errNoSignals = fmt.Errorf("this operating system cannot stop a process and continue it: %w",
	backend.ErrUnavailable)

func pause(int) error  { return errNoSignals }
func resume(int) error { return errNoSignals }
