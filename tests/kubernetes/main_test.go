package kubernetes

import (
	"os"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) {
	if os.Getenv("AMBERFS_TEST_KUBERNETES") == "" {
		os.Exit(m.Run()) // it is left out
	}
	os.Exit(harness.Run(m))
}
