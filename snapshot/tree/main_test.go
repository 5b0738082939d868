package tree

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the tests of random histories short ones, unless
// AMBERFS_TEST_LONG asks for all.
func TestMain(m *testing.M) {
	if os.Getenv("AMBERFS_TEST_LONG") == "" {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	m.Run()
}
