package catalogue_test

import (
	"testing"

	"github.com/marketsim/marketsim/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.MaxParallel(8)
	testkit.VerifyNoLeaks(m)
}
