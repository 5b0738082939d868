package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// The set "workspace:NAME" has three tools. A ref that one of them returns is a snapshot
// or a workspace, and each of them takes both:
//
//	SNAPSHOT           of the server's workspace
//	FORK, FORK/FORK    a workspace that restore or branch made
//	FORK@SNAPSHOT      a snapshot of that
type ref struct {
	Ref string `json:"ref" jsonschema:"a state or a workspace, as these tools return it"`
}

type newRef struct {
	Ref  string `json:"ref" jsonschema:"every tool of this set takes it"`
	Path string `json:"path,omitempty" jsonschema:"where the new workspace is"`
}

// resolve finds the workspace of a ref, and the snapshot if it is one.
func (m *mcpServer) resolve(ctx context.Context, ref string) (workspace, name string, err error) {
	if workspace, name, ok := strings.Cut(ref, "@"); ok {
		return workspace, name, nil
	}
	if ref == "" || strings.Contains(ref, "/") {
		return ref, "", nil
	}
	p, err := m.a.place()
	if err != nil {
		return "", "", err
	}
	var l service.ForkList
	if err := m.a.ask(ctx, p, service.Forks{}, &l); err != nil {
		return "", "", err
	}
	for _, f := range l.Forks {
		if f.Name == ref {
			return ref, "", nil
		}
	}
	return "", ref, nil
}

// offerRef adds a tool of the set "workspace:NAME".
func (m *mcpServer) offerRef(workspace string, t *tool) {
	in := mustSchema(reflect.TypeFor[ref]())
	in.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	_, makesFork := t.op.(service.Fork)
	if !makesFork {
		in.Required = nil // the server's workspace
	}
	name := "workspace__" + workspace + "__" + t.names[setWorkspace]
	m.add(setWorkspace, t, name, in, reflect.TypeFor[newRef](), func(ctx context.Context, args arguments) (string, any, error) {
		var r ref
		if raw, ok := args["ref"]; ok {
			if err := json.Unmarshal(raw, &r.Ref); err != nil || r.Ref == "" {
				return "", nil, fail.New(fail.Usage, "the argument ref must be a string that these tools returned, not %s", raw)
			}
		}
		at, state, err := m.resolve(ctx, r.Ref)
		if err != nil {
			return "", nil, err
		}
		var made newRef
		if makesFork {
			made, err = m.branch(ctx, t, workspace, at, state)
		} else {
			made, err = m.capture(ctx, t, at, state)
		}
		return made.Ref, made, err
	})
}

// capture returns the ref of a workspace's present state. A snapshot is one already.
func (m *mcpServer) capture(ctx context.Context, t *tool, at, state string) (newRef, error) {
	if state == "" {
		got, err := m.call(ctx, t, at, nil)
		if err != nil {
			return newRef{}, err
		}
		state = got.(*snapshot.Info).Name
	}
	if at == "" {
		return newRef{Ref: state}, nil
	}
	return newRef{Ref: at + "@" + state}, nil
}

// branch makes a workspace out of a state, in the workspace that the state is of.
func (m *mcpServer) branch(ctx context.Context, t *tool, workspace, at, state string) (newRef, error) {
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s-%d", workspace, n)
		args := arguments{"name": quotedJSON(name)}
		if state != "" {
			args["snapshot"] = quotedJSON(state)
		}
		got, err := m.call(ctx, t, at, args)
		if fail.KindOf(err) == fail.Exists { // the name is in use
			continue
		}
		if err != nil {
			return newRef{}, err
		}
		made := got.(*service.Forked)
		return newRef{Ref: strings.TrimPrefix(at+"/"+made.Name, "/"), Path: made.Path}, nil
	}
}

func quotedJSON(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return b
}
