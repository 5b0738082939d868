package service

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/tests/must"
)

// TestReference compares the pages of docs/reference that are generated from the types with the code.
func TestReference(t *testing.T) {
	for name, want := range map[string]string{"json.md": jsonPage(t), "http.md": httpPage()} {
		file := "../docs/reference/" + name
		if *update {
			must.OK(t, os.WriteFile(file, []byte(want), 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s differs from the code (%v): run go generate ./service", name, err)
		}
	}
}

// fields returns the table of the JSON fields of a type.
func fields[T any](t *testing.T) string {
	s, err := Schema(reflect.TypeFor[T]())
	must.OK(t, err)
	b, plain := strings.Builder{}, []string{}
	b.WriteString("|field|meaning|\n|---|---|\n")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name := JSONName(f)
		switch p := s.Properties[name]; {
		case p == nil || f.Anonymous:
		case p.Description == "":
			plain = append(plain, "`"+name+"`")
		default:
			fmt.Fprintf(&b, "|`%s`|%s|\n", name, p.Description)
		}
	}
	fmt.Fprintf(&b, "|%s|as their names say|\n", strings.Join(plain, ", "))
	return b.String()
}

func jsonPage(t *testing.T) string {
	actions := strings.Builder{}
	for _, a := range events.Actions {
		fmt.Fprintf(&actions, "|`%s`|%s|%s|%s|\n", a.Name, a.About, a.From, a.Detail)
	}
	return fmt.Sprintf(`# JSON

Generated from the code. Fields are added, never renamed or removed, so ignore unknown fields. Times are RFC 3339 in UTC, sizes are bytes, %[1]sms%[1]s are milliseconds.

- With %[1]s--json%[1]s, a command prints the result of its operation as in [openapi.yaml](../api/openapi.yaml). A command that fails prints %[1]s{"ok":false,"error":…,"hint":…,"kind":…,"exit":…}%[1]s.
- A control file contains the result of the last request as one line: %[1]s{"ok":true,…}%[1]s with the result's fields, or %[1]s{"ok":false,"error":…,"kind":…}%[1]s.
- A path that is not UTF-8 has its bytes in base64 in %[1]sraw%[1]s. In a request it is %[1]s{"bytes":RAW}%[1]s.

## A snapshot

%[1]s.snapshots/info@NAME%[1]s, %[1]samberfs show --json%[1]s, and each element of %[1]samberfs list --json%[1]s. The kinds are %[2]s.

%[3]s
## An event

A line of %[1]s.snapshots/log%[1]s and of %[1]samberfs log --json%[1]s. Many writes of one program to one file are one event.

%[4]s
|action|meaning|%[1]sfrom%[1]s|%[1]sdetail%[1]s|
|---|---|---|---|
%[5]s
## Status

%[1]s.snapshots/status%[1]s and %[1]samberfs status --json%[1]s. In a fork, %[1]sstatus%[1]s is about the fork alone and leaves fields empty.

%[6]s`, "`", "`"+strings.Join(info.Kinds, "`, `")+"`", fields[info.Info](t), fields[events.Event](t), actions.String(), fields[Status](t))
}

func httpPage() string {
	table := strings.Builder{}
	for _, o := range ops {
		var args []string
		for _, f := range reflect.VisibleFields(o.Args) {
			if name := JSONName(f); f.IsExported() && !f.Anonymous && name != "-" {
				args = append(args, "`"+name+"`")
			}
		}
		stream := map[string]string{"": "", Text: "text", Bytes: "bytes", Tar: "archive", Events: "events"}[o.Output]
		fmt.Fprintf(&table, "|`%s`|%s|%s|%s|\n", o.Name, strings.Join(args, " "), stream, accessNames[o.Access])
	}
	return fmt.Sprintf(`# HTTP

Generated from the code. The Unix socket of a mounted store, %[1]sSTORE/socket%[1]s, speaks HTTP to the owner of the store and to root. [openapi.yaml](../api/openapi.yaml) describes every operation.

%[1]s%[1]s%[1]ssh
curl --unix-socket STORE/socket http://amberfs/v1/list -d '{"limit":20}'
curl --unix-socket STORE/socket http://amberfs/v1/restore -d '{"name":"v1","paths":["src"]}'
curl --unix-socket STORE/socket 'http://amberfs/v1/events?follow=true' -N
%[1]s%[1]s%[1]s

An operation is %[1]sPOST /v1/OP%[1]s with its arguments as a JSON object. Operations with a stream are also %[1]sGET /v1/OP?…%[1]s: events are server-sent events. The query parameter %[1]sworkspace=NAME%[1]s selects a fork. %[1]simport%[1]s with %[1]sfrom=tar%[1]s reads an archive as its body and its arguments as query parameters. Unknown operations, fields and parameters are refused.

A failure has a status and the body %[1]s{"error":…,"hint":…,"kind":…}%[1]s. An error after a stream began is in the trailer %[1]s%[2]s%[1]s.

[%[1]s.snapshots/call%[1]s](control-files.md#call) accepts the same objects, with the operation's name in %[1]sop%[1]s, from callers with the [right](control-files.md#who-may-do-what) in the last column.

|operation|arguments|stream|right|
|---|---|---|---|
%[3]s`, "`", ErrorTrailer, table.String())
}

var accessNames = []string{"look", "owner", "add", "change", "own", "govern", "socket"}

// TestArgumentsAreFields: all fields of arguments are exported, so that they can be set.
func TestArgumentsAreFields(t *testing.T) {
	for _, o := range ops {
		for _, f := range reflect.VisibleFields(o.Args) {
			if !f.IsExported() {
				t.Errorf("%s: the field %s of %s cannot be set", o.Name, f.Name, o.Args)
			}
		}
	}
}
