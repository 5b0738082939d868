// Package harness runs amberfs as users do: a real binary, a real mount, and a daemon in a process of its own. The
// tests of the whole program use it.
//
// Imported by: tests.
//
// The environment variable AMBERFS_TEST_BIN has the path of the binary. If it is not set, the binary is built once per
// test process; AMBERFS_TEST_RACE=1 builds it with the race detector. A test package calls [Run] from its TestMain.
// Run builds the binary and, after the tests, fails if a mount or a daemon is left.
//
//	func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		m := harness.New(t)                // a fresh store, mounted
//		os.WriteFile(m.Path("f"), …)
//		os.Mkdir(m.Path(".snapshots", "v1"), 0o755)
//		m.Kill()                           // kill -9
//		m.Start()                          // and mounted again
//	}
//
// A mount ends with its test, also if the test fails or panics. If the test fails, the daemon's log is printed. A data
// race or a panic in the log fails the test.
//
// The package does not rely on the speed of the machine: it polls for conditions, for up to [Timeout].
package harness
