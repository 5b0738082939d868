package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestFamiliesReachLittle: in package service, only Config has the store, only Service has the families, which are the
// types with a method familyOf, and only Server has the Service. No function gets the store from a workspace.
func TestFamiliesReachLittle(t *testing.T) {
	held, fields := []string{"*Service", "*snapshot.Store"}, map[string]string{}
	for _, s := range sources(t) {
		if s.pkg != module+"/service" || s.test {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../../"+s.file, nil, 0)
		must.OK(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "familyOf" {
					held = append(held, types.ExprString(n.Recv.List[0].Type))
				}
			case *ast.CallExpr:
				if f := types.ExprString(n.Fun); len(n.Args) == 0 && strings.HasSuffix(f, ".Store") {
					t.Errorf("%s: %s()", s.file, f)
				}
			case *ast.TypeSpec:
				if st, ok := n.Type.(*ast.StructType); ok && !slices.Contains([]string{"Config", "Service", "Server"}, n.Name.Name) {
					for _, f := range st.Fields.List {
						fields[types.ExprString(f.Type)] = n.Name.Name
					}
				}
			}
			return true
		})
	}
	for _, typ := range held {
		if of := fields[typ]; of != "" || len(held) < 10 {
			t.Errorf("%s has a field of type %s, and the families are %v", of, typ, held[2:])
		}
	}
}
