package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
)

// TestSanity runs the sanity tests of CSI for drivers.
func TestSanity(t *testing.T) {
	p := start(t, "node1")
	dir, err := os.MkdirTemp(filepath.Dir(p.Store), "sanity")
	if err != nil {
		t.Fatal(err)
	}
	config := sanity.NewTestConfig()
	config.Address = p.Endpoint
	config.TargetPath = filepath.Join(dir, "target")
	config.StagingPath = filepath.Join(dir, "staging")
	sanity.Test(t, config)
}
