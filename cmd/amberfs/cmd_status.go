package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/service"
)

func policyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "policy [FILE]",
		Short: "Show or change what is kept, and limits",
		Long: `Shows the policy of the workspace as JSON, or changes it by the JSON merge patch in
FILE ("-" is standard input).`,
		Example: `  amberfs policy > policy.json
  amberfs policy policy.json`,
		Args: args(0, 1, "at most one FILE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var doc json.RawMessage
			var req any = service.Policy{}

			if len(argv) == 1 {
				name := argv[0]
				in, err := a.openInput(name)
				if err != nil {
					return err
				}
				defer in.Close()

				patch, err := io.ReadAll(in)
				if err == nil {
					err = strictjson.Decode(patch, new(json.RawMessage))
				}
				if name == "-" {
					name = "the standard input"
				}
				if err != nil {
					return errs.Fail(errs.Invalid, "cannot read a policy from %s: %w", name, err)
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
