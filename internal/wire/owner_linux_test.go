package wire

import (
	"net"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
)

// dialAs connects as another user, which needs root. A socket is whose its thread was.
func dialAs(user int) func(addr string) (net.Conn, error) {
	return func(addr string) (net.Conn, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(user), 0, 0) // it returns no error
		defer func() { _, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(os.Geteuid()), 0, 0) }()
		return net.Dial("tcp", addr)
	}
}

// A gate lets nobody through who runs as another user, and says who has come. Only root
// can be somebody else; TestUserIn is for everybody.
func TestGateRefusesOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}

	const nobody = 65534
	gate := gateOfNothing(t)
	for range 2 {
		if said := hears(t, gate, dialAs(nobody)); said != "" {
			t.Errorf("another user hears %q", said)
		}
	}

	if refused := gate.Refused(); !slices.Equal(refused, []int{nobody}) {
		t.Errorf("%v were refused, want %d", refused, nobody)
	}
	if said := hears(t, gate, dialAs(os.Geteuid())); said != "+here" {
		t.Errorf("this user hears %q afterwards", said)
	}
}
