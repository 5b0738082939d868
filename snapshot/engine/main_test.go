package engine_test

import "os"

// long reports whether the exhaustive forms of the tests are asked for; the others
// take samples.
var long = os.Getenv("AMBERFS_TEST_LONG") != ""
