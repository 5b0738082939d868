package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/service"
)

func policyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "policy [FILE]",
		Short: "Show or change what is kept, and limits",
		Long: `Shows the policy of the workspace as JSON. With FILE ("-" is standard input), changes
it: the file is a JSON merge patch, and fields that it leaves out stay. All fields
are checked before any takes effect.`,
		Example: `  amberfs policy > policy.json
  amberfs policy policy.json`,
		Args: args(0, 1, "at most one FILE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var doc json.RawMessage
			var req any = service.Policy{}
			if len(argv) == 1 {
				patch, err := a.readFile(argv[0])
				if err != nil {
					return err
				}
				name := argv[0]
				if name == "-" {
					name = "the standard input"
				}
				if err := strictjson.Decode(patch, new(json.RawMessage)); err != nil {
					return fail.New(fail.Usage, "cannot read a policy from %s: %w", name, err)
				}
				req = service.SetPolicy{Patch: patch}
			}
			if err := a.askHere(cmd.Context(), req, &doc); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(doc)
			}
			var b bytes.Buffer
			if err := json.Indent(&b, doc, "", "  "); err != nil {
				return err
			}
			a.printf("%s\n", b.Bytes())
			return nil
		},
	}
}

// maxDocument bounds a small file that is read whole.
const maxDocument = 1 << 20

// readFile reads a small file, or the standard input for "-".
func (a *app) readFile(name string) ([]byte, error) {
	r := a.stdin
	if name != "-" {
		path, err := a.abs(name)
		if err != nil {
			return nil, err
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, fail.New(fail.KindOf(err), "cannot read %s: %w", name, err)
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, fail.New(fail.Failed, "cannot read %s: %w", name, err)
	}
	if len(b) > maxDocument {
		return nil, fail.New(fail.Usage, "%s is too long", name)
	}
	return b, nil
}
