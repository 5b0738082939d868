// Speaks to `amberfs mcp` as the official SDK does: every tool with good and bad
// arguments, its structured content against its schema (which the SDK checks),
// pages, prompts, resources, the sets of names.
import assert from "node:assert";
import { writeFileSync, readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [dir, mode] = process.argv.slice(2);

async function connect(...args) {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StdioClientTransport({ command: "amberfs", args: ["-C", dir, "mcp", ...args], stderr: "inherit" }));
  const { tools } = await client.listTools(); // the SDK keeps the output schemas
  for (const t of tools) assert(t.title && t.annotations && t.outputSchema?.type === "object", t.name);
  client.names = tools.map((t) => t.name);
  client.do = async (name, args = {}) => {
    const r = await client.callTool({ name, arguments: args });
    assert(!r.isError, `${name}: ${JSON.stringify(r)}`);
    assert(r.structuredContent, name);
    return { text: r.content[0].text, ...r.structuredContent };
  };
  client.fails = async (name, args, pattern) => {
    let text;
    try {
      const r = await client.callTool({ name, arguments: args });
      assert(r.isError, `${name} ${JSON.stringify(args)} succeeded`);
      text = r.content[0].text;
    } catch (e) {
      text = String(e.message); // the arguments do not fit the schema
    }
    assert.match(text, pattern);
    assert(!text.includes("--"), text);
  };
  return client;
}

const put = (name, text) => writeFileSync(`${dir}/${name}`, text);

async function all() {
  const c = await connect();
  put("f", "one\n");
  assert.match((await c.do("snapshot_create", { name: "s1", description: "the first" })).text, /^snapshot s1 created: [0-9a-f]{64}$/);
  await c.fails("snapshot_create", { name: "s1" }, /snapshot "s1" exists/);
  await c.fails("snapshot_create", { name: "a/b" }, /refused name|name/);
  await c.fails("snapshot_create", { nme: "x" }, /unknown argument "nme": the arguments are description, .*did you mean "name"/);
  put("f", "two\n");
  put("g", "new\n");
  await c.do("snapshot_create", { name: "s2" });
  assert.match((await c.do("snapshot_list")).text, /^s2\t[0-9a-f]{12}\t.*\ns1\t.*\tthe first\n$/);
  assert.equal((await c.do("snapshot_show", { name: "s1" })).message, "the first");
  await c.fails("snapshot_show", { name: "s9" }, /no such snapshot: "s9".*did you mean "s[12]"/);
  await c.fails("snapshot_show", {}, /name/);
  assert.match((await c.do("snapshot_diff", { name: "s1", other: "s2" })).text, /-one\n\+two\n/);
  assert.equal((await c.do("snapshot_diff", { name: "s2" })).text, "no differences");
  assert.equal((await c.do("snapshot_changes", { name: "s1" })).text, "M\tf\nA\tg\n");
  assert.match((await c.do("snapshot_history", { path: "f" })).text, /^modified\ts2\t.*\ncreated\ts1\t/);
  await c.fails("snapshot_history", { path: "../x" }, /outside/);
  let r = await c.do("snapshot_restore", { name: "s1", dry_run: true });
  assert.equal(r.text, "would restore snapshot s1 (2 files would change):\nf\ng");
  r = await c.do("snapshot_restore", { name: "s1", paths: ["f"] });
  assert.equal(r.text, "restored snapshot s1 (1 file changed):\nf");
  assert.equal(readFileSync(`${dir}/f`, "utf8"), "one\n");
  assert.equal((await c.do("snapshot_undo")).changed, 1);
  await c.do("snapshot_revert", { path: "f", name: "s1" });
  await c.fails("snapshot_revert", { path: "nothing" }, /no such path.*: nothing/);
  assert.match((await c.do("fork_create", { name: "left", snapshot: "s1" })).path, /\/\.forks\/left$/);
  await c.fails("fork_create", { name: "left" }, /exists/);
  put(".forks/left/f", "theirs\n");
  put("f", "ours\n");
  await c.fails("fork_merge", { fork: "left" }, /decide with ours, theirs or resolve:\nf/);
  assert.match((await c.do("fork_merge", { fork: "left", theirs: true, dry_run: true })).text, /^would merge fork left \(1 file would change\):\nf$/);
  assert.equal(readFileSync(`${dir}/f`, "utf8"), "ours\n");
  assert.equal((await c.do("fork_merge", { fork: "left", theirs: true })).changed, 1);
  assert.match((await c.do("fork_list")).text, /^left\ts1\t/);
  assert.equal((await c.do("fork_delete", { name: "left" })).snapshot, "left");
  await c.fails("fork_delete", { name: "left" }, /no such fork/);

  // What a fork has can be looked at, captured and merged with the same tools.
  await c.do("fork_create", { name: "right", ttl: "1h" });
  put(".forks/right/f", "right\n");
  await c.do("snapshot_create", { name: "inside", workspace: "right" });
  put(".forks/right/f", "right again\n");
  assert.match((await c.do("snapshot_diff", { name: "inside", workspace: "right", paths: ["f"] })).text, /-right\n\+right again\n/);
  await c.fails("snapshot_show", { name: "inside" }, /no such snapshot/);
  assert.match((await c.do("snapshot_restore", { name: "inside", workspace: "right", paths: ["f"], dry_run: true })).text, /1 file/);
  assert.match((await c.do("fork_create", { name: "deep", workspace: "right" })).path, /\/\.forks\/right\/\.forks\/deep$/);
  assert.equal((await c.do("workspace_status", { workspace: "right/deep" })).workspace, "deep");
  await c.fails("workspace_status", { workspace: "none" }, /no such fork: none/);
  await c.fails("workspace_status", { workspace: "../x" }, /name/);
  assert.match((await c.do("fork_delete", { name: "right", discard: true })).text, /undo restores it/);
  await c.fails("fork_create", { name: "x", from: "s1" }, /unknown argument "from": the arguments are name, snapshot, ttl, workspace/);
  await c.fails("fork_create", { name: 1 }, /the argument name must be a string, not a number/);
  await c.fails("fork_create", {}, /the argument name is missing/);
  await c.fails("snapshot_diff", { name: "s1", other: 5 }, /the argument other must be a string, not a number/);
  await c.fails("snapshot_create", { description: 5 }, /the argument description must be a string/);
  assert.equal((await c.do("workspace_status")).workspace, "main");
  assert.match((await c.do("workspace_log", { path: "f" })).text, /restored/);
  assert.equal((await c.do("workspace_log", { path: "f", limit: 1 })).text.trim().split("\n").length, 1);
  assert.equal((await c.do("snapshot_list", { limit: 1 })).text.trim().split("\n").length, 1);
  await c.do("snapshot_delete", { name: "s2" });
  await c.fails("no_such_tool", {}, /no_such_tool|unknown/i);

  put("long", Array.from({ length: 20000 }, (_, i) => `line ${i}\n`).join(""));
  let whole = "", next = 0, pages = 0;
  do {
    r = await c.do("snapshot_diff", { name: "s1", paths: ["long"], start_index: next });
    assert(Buffer.byteLength(r.text) <= 41 << 10, "a page is too long");
    next = r.next_index;
    pages++;
    whole += r.text;
  } while (next);
  assert(pages > 4 && whole.includes("+line 19999\n"), `${pages} pages`);

  const { prompts } = await c.listPrompts();
  assert.deepEqual(prompts.map((p) => p.name).sort(), ["review", "rewind", "snapshot"]);
  assert.match((await c.getPrompt({ name: "rewind", arguments: { name: "s1" } })).messages[0].content.text, /"s1"/);
  const { contents } = await c.readResource({ uri: "amberfs://snapshot/s1/f" });
  assert.equal(contents[0].text, "one\n");
  await assert.rejects(c.readResource({ uri: "amberfs://snapshot/s1/../../../../etc/passwd" }));
  await assert.rejects(c.readResource({ uri: "amberfs://snapshot/none/f" }));

  const second = await connect(); // two servers at once
  assert.match((await second.do("snapshot_list")).text, /s1/);
  await second.close();
  await c.close();
}

async function sets() {
  const s = await connect("--tools", "snapshots");
  assert(s.names.every((n) => n.startsWith("snapshots_")), s.names.join());
  await s.do("snapshots_create", { name: "t1" });
  const list = await s.do("snapshots_list", { format: "json" });
  assert(JSON.parse(list.text).some((i) => i.name === "t1"));
  await s.fails("snapshots_list", { format: "xml" }, /format/);
  assert.equal((await s.do("snapshots_list", { max_length: 5 })).next_index, 5);
  await s.close();

  const w = await connect("--tools", "workspace:mine");
  const { ref } = await w.do("workspace__mine__snapshot");
  put("f", "after\n");
  const one = await w.do("workspace__mine__restore", { ref });
  const two = await w.do("workspace__mine__branch", { ref });
  assert.notEqual(one.ref, two.ref);
  assert.notEqual(readFileSync(`${one.path}/f`, "utf8"), "after\n");
  assert.equal(readFileSync(`${dir}/f`, "utf8"), "after\n");
  await w.fails("workspace__mine__restore", { ref: "none" }, /no such snapshot/);
  // Every ref is taken by every tool: a branch of a branch, of its snapshot, and so on.
  writeFileSync(`${two.path}/f`, "two\n");
  const three = await w.do("workspace__mine__branch", { ref: two.ref });
  assert.equal(readFileSync(`${three.path}/f`, "utf8"), "two\n");
  const state = await w.do("workspace__mine__snapshot", { ref: three.ref });
  writeFileSync(`${three.path}/f`, "three\n");
  const four = await w.do("workspace__mine__restore", { ref: state.ref });
  assert.equal(readFileSync(`${four.path}/f`, "utf8"), "two\n");
  const five = await w.do("workspace__mine__branch", { ref: four.ref });
  assert.equal(readFileSync(`${five.path}/f`, "utf8"), "two\n");
  for (const r of [ref, one.ref, two.ref, three.ref, state.ref, four.ref, five.ref]) {
    for (const tool of ["snapshot", "restore", "branch"]) assert((await w.do(`workspace__mine__${tool}`, { ref: r })).ref);
  }
  await w.fails("workspace__mine__branch", { reff: ref }, /unknown argument "reff": the arguments are ref/);
  await w.close();
}

// Outside of a mount, and when the daemon is gone, the answer is the sentence that
// says what is missing.
async function without(pattern) {
  const c = await connect();
  await c.fails("snapshot_list", {}, pattern);
  await c.close();
}

await { all, sets, outside: () => without(/not inside an amberfs mount/), dead: () => without(/is not running/) }[mode]();
console.log("ok");
