package sentinel

import (
	"strings"
	"testing"
	"time"
)

func TestMasterIsNotKilledWhenNobodyWouldTakeOver(t *testing.T) {
	err := (&Trio{cut: time.Now().Add(-lateness)}).KillMaster()
	if err == nil || !strings.Contains(err.Error(), "kill it sooner") {
		t.Errorf("killing it too late after the cut: %v", err)
	}
}
