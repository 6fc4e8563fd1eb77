package catalogue_test

import (
	"testing"

	"github.com/marketsim/marketsim/market/backend/backendtest"
)

func TestMain(m *testing.M) { backendtest.VerifyNoLeaks(m) }
