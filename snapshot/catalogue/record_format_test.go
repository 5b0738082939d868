package catalogue_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestFormatTellsOfEveryRecord: FORMAT.md has a row for each type that replay knows.
func TestFormatTellsOfEveryRecord(t *testing.T) {
	b, err := os.ReadFile("../FORMAT.md")
	must.OK(t, err)
	for typ := live.FirstForeign; ; typ++ {
		_, err := catalogue.Decode(catalogue.Type(typ), nil)
		if err != nil && strings.Contains(err.Error(), "is unknown") {
			if typ == live.FirstForeign {
				t.Fatal("no record is known")
			}
			return
		}
		if !strings.Contains(string(b), fmt.Sprintf("\n| %d | ", typ)) {
			t.Errorf("FORMAT.md says nothing of record type %d", typ)
		}
	}
}
