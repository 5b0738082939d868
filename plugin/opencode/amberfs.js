// The plugin for opencode: a snapshot before each turn, what each call of a tool changed, and the undo of
// one session. Copy it to .opencode/plugin/ or ~/.config/opencode/plugin/. It calls `amberfs hook`, whose
// failures are in ~/.local/state/amberfs/hook.log.
import { spawn } from "node:child_process";

// amberfs returns what a command prints, or "" where there is no amberfs.
const amberfs = (directory, args, input = "") =>
  new Promise((resolve) => {
    let out = "";
    const child = spawn("amberfs", args, { cwd: directory, stdio: ["pipe", "pipe", "ignore"] });
    child.on("error", () => resolve(""));
    child.stdin.on("error", () => {});
    child.stdout.on("data", (b) => (out += b));
    child.on("close", () => resolve(out));
    child.stdin.end(input);
  });

const actor = (session) => `opencode/${session}`;

export const Amberfs = async ({ directory }) => {
  const hook = (event) => amberfs(directory, ["hook", "opencode"], JSON.stringify({ cwd: directory, ...event }));

  return {
    "chat.message": async ({ sessionID, messageID }, { parts }) => {
      const prompt = parts.map((p) => p.text ?? "").join("\n");
      await hook({ hook_event_name: "UserPromptSubmit", session_id: sessionID, prompt_id: messageID, prompt });
    },

    // The sessions of one opencode share a process, so each call names its session.
    "tool.execute.before": async ({ sessionID }) => {
      await amberfs(directory, ["actor", actor(sessionID), "--pid", String(process.pid)]);
    },

    "tool.execute.after": async ({ sessionID, tool, args }, output) => {
      const text = await hook({ hook_event_name: "PostToolUse", session_id: sessionID, tool_name: tool, tool_input: { command: args?.command } });
      if (text) output.output = `${output.output ?? ""}\n\n${text}`;
    },

    tool: {
      amberfs_undo_session: {
        description: "Undo what this session changed in the files. What other sessions and people changed stays.",
        args: {},
        execute: async (_, { sessionID }) => (await amberfs(directory, ["undo", "--by", actor(sessionID)])) || "nothing was undone",
      },
    },

    config: async (config) => {
      config.command = {
        ...config.command,
        "amber-undo": {
          description: "Undo what this session changed",
          template: "Call the tool amberfs_undo_session, and repeat what it returns.",
        },
      };
    },
  };
};
