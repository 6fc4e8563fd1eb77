package fault

import (
	"os"
	"testing"

	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestMain(m *testing.M) {
	ServeChild(func(name string) (Purchasing, error) {
		if name == "outsider" {
			return outsider{}, nil
		}
		return catalogue.Full().Parse(name)
	})
	os.Exit(m.Run())
}
