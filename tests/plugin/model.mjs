// Stands for the models of three vendors, so that their agents work without an account: a prompt
// that has "RUN: COMMAND" is answered by a call of the agent's shell with COMMAND, the result of the
// call and everything else by "done". Prints the port, and on standard error the reports of amberfs that it gets. Forms of 2026-11:
// Anthropic's Messages, OpenAI's Responses and chat completions, and Gemini's streamGenerateContent, each as a stream.
import { createServer } from "node:http";

const wanted = (text) => /RUN: ([^\n"]*)/.exec(text)?.[1].trim();

function messages(request) {
  const last = request.messages.filter((m) => m.role === "user").at(-1);
  const parts = typeof last.content === "string" ? [{ type: "text", text: last.content }] : last.content;
  const answered = parts.some((p) => p.type === "tool_result");
  const shell = request.tools?.find((t) => /^bash$/i.test(t.name))?.name;
  const command = !answered && shell && wanted(parts.map((p) => p.text ?? "").join("\n"));
  const block = command ? { type: "tool_use", id: "call_1", name: shell, input: {} } : { type: "text", text: "" };
  const delta = command
    ? { type: "input_json_delta", partial_json: JSON.stringify({ command, description: "work" }) }
    : { type: "text_delta", text: "done" };
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: "msg_1", type: "message", role: "assistant", model: request.model, content: [], stop_reason: null, usage };
  return [
    { type: "message_start", message },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: command ? "tool_use" : "end_turn" }, usage },
    { type: "message_stop" },
  ];
}

function completions(request) {
  const last = request.messages.at(-1);
  const text = typeof last.content === "string" ? last.content : last.content?.map((p) => p.text ?? "").join("\n");
  const tool = request.tools?.map((t) => t.function.name).find((name) => /^(run_commands|execute_command|bash)$/.test(name));
  const command = last.role === "user" && tool && wanted(text);
  const argument = tool === "run_commands" ? { commands: [command] } : { command, requires_approval: false };
  const call = { index: 0, id: "call_1", type: "function", function: { name: tool, arguments: JSON.stringify(argument) } };
  const chunk = (delta, finish_reason = null) => ({ id: "c_1", object: "chat.completion.chunk", created: 1, model: request.model, choices: [{ index: 0, delta, finish_reason }] });
  return [chunk({ role: "assistant", ...(command ? { tool_calls: [call] } : { content: "done" }) }), chunk({}, command ? "tool_calls" : "stop")];
}

function responses(request) {
  const last = request.input.at(-1);
  const command = last.role === "user" && wanted(last.content.map((p) => p.text ?? "").join("\n"));
  const tool = request.tools.map((t) => t.name).find((name) => /^(exec_command|shell_command|shell)$/.test(name));
  const argument = { exec_command: { cmd: command }, shell_command: { command }, shell: { command: ["bash", "-c", command] } }[tool];
  const item = command
    ? { type: "function_call", id: "fc_1", call_id: "call_1", name: tool, arguments: JSON.stringify(argument) }
    : { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "done" }] };
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return [
    { type: "response.created", response: { id: "resp_1" } },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { id: "resp_1", usage } },
  ];
}

function contents(request) {
  const last = request.contents.at(-1).parts;
  const answered = last.some((p) => p.functionResponse);
  const command = !answered && request.tools?.length && wanted(last.map((p) => p.text ?? "").join("\n"));
  const part = command ? { functionCall: { name: "run_shell_command", args: { command } } } : { text: "done" };
  return [{ candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }] }];
}

const server = createServer(async (request, response) => {
  const body = (await request.toArray()).join("");
  const path = new URL(request.url, "http://model").pathname;
  for (const report of body.matchAll(/changed since [^"]*/g)) console.error(path, report[0]);
  const answer = { "/v1/messages": messages, "/v1/responses": responses, "/v1/chat/completions": completions }[path] ?? (/:streamGenerateContent$/.test(path) && contents);
  if (request.method !== "POST" || !answer) {
    response.writeHead(404, { "content-type": "application/json" }).end('{"error":{"message":"not here"}}');
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const event of answer(JSON.parse(body))) {
    response.write((event.type ? `event: ${event.type}\n` : "") + `data: ${JSON.stringify(event)}\n\n`);
  }
  response.end();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
