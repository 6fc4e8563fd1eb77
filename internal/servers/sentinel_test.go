package servers

import (
	"strings"
	"testing"
	"time"
)

func TestMasterIsNotKilledWhenNobodyWouldTakeOver(t *testing.T) {
	err := (&Sentinel{cut: time.Now().Add(-promotable)}).KillMaster()
	if err == nil || !strings.Contains(err.Error(), "kill it sooner") {
		t.Errorf("killing it too late after the cut: %v", err)
	}
}
